#include "attention/text_anchors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::attention {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Positions = std::vector<std::int64_t>;

const std::vector<std::string> kSentence{"The", " code", " of", " Ann", "ika", " is", " ", "4", "2", "."};

TEST(TextAnchors, NumbersAreTokensWithADigit) {
  EXPECT_THAT(find_text_anchors(kSentence, TextAnchor::numbers), ElementsAre(7, 8));
  EXPECT_THAT(find_text_anchors({"none", " here"}, TextAnchor::numbers), IsEmpty());
}

TEST(TextAnchors, NamesAreCapitalsInsideASentenceWithTheRestOfTheWord) {
  // "The" has a capital too, but begins the sentence.
  EXPECT_THAT(find_text_anchors(kSentence, TextAnchor::names), ElementsAre(3, 4));
  // " Nobody" begins a sentence, " Quinn" does not; " A" alone is an article, " V" + "oss" a name.
  EXPECT_THAT(find_text_anchors({"So", ".", " Nobody", " saw", " Quinn", " A", " V", "oss"}, TextAnchor::names),
              ElementsAre(4, 6, 7));
}

TEST(TextAnchors, ParagraphsBeginAfterLineBreaks) {
  EXPECT_THAT(find_text_anchors({"One", ".", "\n", "\n", "Two", " words", "\n", "Three"}, TextAnchor::paragraphs),
              ElementsAre(0, 4, 7));
}

// A break and the word behind it may be one token: the paragraph begins there, and the word is no name inside a sentence.
TEST(TextAnchors, ATokenThatBeginsWithABreakBeginsTheParagraph) {
  const std::vector<std::string> tokens{"We", " met", ".\n", "Then", "\nAnn", " left", " Bob", " a\nb", " c"};
  EXPECT_THAT(find_text_anchors(tokens, TextAnchor::paragraphs), ElementsAre(0, 3, 4, 7));
  EXPECT_THAT(find_text_anchors(tokens, TextAnchor::names), ElementsAre(6));
}

TEST(TextAnchors, SentencesBeginAfterTheirMarks) {
  EXPECT_THAT(find_text_anchors({"One", ".", " Two", "?", " Three", " 3", "\n", "Four"}, TextAnchor::sentences),
              ElementsAre(0, 2, 4, 7));
}

TEST(TextAnchors, HeadingsAreShortLinesThatLookLikeOne) {
  EXPECT_THAT(find_text_anchors({"#", " Title", "\n", "Plain", " text", "\n", "List", ":", "\n", "LOUD", "\n", "x"},
                                TextAnchor::headings),
              ElementsAre(0, 1, 6, 7, 9));
  // The end of a line may be one token with the break, and the break one with the next line's beginning.
  EXPECT_THAT(find_text_anchors({"Notes", ":\n", "x", "\nLOUD", " X", "\n\ny"}, TextAnchor::headings),
              ElementsAre(0, 1, 3, 4));
  // Thirteen words that end with a colon are a sentence; twelve are still a heading.
  std::vector<std::string> longest(12, " word");
  longest.emplace_back(":");
  EXPECT_EQ(find_text_anchors(longest, TextAnchor::headings).size(), 13u);
  longest.insert(longest.begin(), " word");
  EXPECT_THAT(find_text_anchors(longest, TextAnchor::headings), IsEmpty());
}

TEST(TextAnchors, UnknownKindListsTheKnownOnes) {
  EXPECT_THROW((void)text_anchor("verbs"), InputError);
  EXPECT_EQ(text_anchor("names"), TextAnchor::names);
}

}  // namespace
}  // namespace kvtide::attention
