#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "cli/command.h"

namespace kvtide::cli {
namespace {

/// "output,o" -> "--output -o".
std::string option_words(const Option& option) {
  const std::size_t comma = option.name.find(',');
  return comma == std::string::npos
             ? "--" + option.name
             : fmt::format("--{} -{}", option.name.substr(0, comma), option.name.substr(comma + 1));
}

/// "measured|dram|FILE" -> {"measured", "dram"}: the words a first positional argument may be, without placeholders.
std::vector<std::string> positional_words(const Command& command) {
  const std::string first = command.positional.substr(0, command.positional.find(' '));
  if (first.find('|') == std::string::npos) return {};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= first.size();) {
    const std::size_t end = std::min(first.find('|', begin), first.size());
    const std::string word = first.substr(begin, end - begin);
    if (word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string::npos) words.push_back(word);
    begin = end + 1;
  }
  return words;
}

std::string words_of(const Command& command) {
  std::vector<std::string> words = positional_words(command);
  for (const Option& option : command.options) words.push_back(option_words(option));
  words.emplace_back("--help");
  return fmt::format("{}", fmt::join(words, " "));
}

/// bash, and zsh by way of its bashcompinit.
std::string bash_script() {
  std::vector<std::string> names;
  std::string cases;
  for (const Command& command : commands()) {
    names.push_back(command.name);
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command.name, words_of(command));
  }
  return fmt::format(R"(_kvtide() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{0} --help --version" -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{1}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -o filenames -F _kvtide kvtide ./kvtide
)",
                     fmt::join(names, " "), cases);
}

std::string fish_script() {
  std::string script = "complete -c kvtide -f -n __fish_use_subcommand -l version -d 'the build'\n";
  for (const Command& command : commands()) {
    script += fmt::format("complete -c kvtide -n __fish_use_subcommand -f -a {} -d '{}'\n", command.name,
                          command.summary.substr(0, command.summary.find('\'')));
    const std::string seen = fmt::format("complete -c kvtide -n '__fish_seen_subcommand_from {}'", command.name);
    for (const std::string& word : positional_words(command)) script += fmt::format("{} -a {}\n", seen, word);
    for (const Option& option : command.options) {
      script += fmt::format("{} -l {}{}\n", seen, option.name.substr(0, option.name.find(',')),
                            option.argument.empty() ? "" : " -r");
    }
  }
  return script;
}

int run(const Arguments& arguments) {
  const std::string& shell = arguments.positional[0];
  if (shell == "bash") {
    fmt::print("{}", bash_script());
  } else if (shell == "zsh") {
    fmt::print("autoload -U +X bashcompinit && bashcompinit\n{}", bash_script());
  } else if (shell == "fish") {
    fmt::print("{}", fish_script());
  } else {
    throw InputError(fmt::format("kvtide completion: expected bash, zsh or fish, got \"{}\"", shell));
  }
  return kDone;
}

}  // namespace

Command completion_command() {
  return {.name = "completion",
          .positional = "bash|zsh|fish",
          .min_positional = 1,
          .max_positional = 1,
          .summary = "a script that completes commands and options in your shell",
          .options = {},
          .examples = {"source <(kvtide completion bash)",
                       "kvtide completion fish > ~/.config/fish/completions/kvtide.fish"},
          .run = &run};
}

}  // namespace kvtide::cli
