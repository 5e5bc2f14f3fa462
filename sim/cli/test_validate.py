"""kvtide validate: netCDF-4 and picture, leave-one-out, and blindness to the measured column."""

import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import h5py

SOURCE = pathlib.Path(__file__).resolve().parents[2]
KVTIDE = os.environ.get("KVTIDE_PROGRAM", str(SOURCE / "build/release/sim/kvtide"))
HEADER = "framework,kernel,batch,kv_len,heads,kv_heads,head_dim,window,attn_dtype,kv_dtype,latency_us\n"


def rows(times):
    shapes = [(1, 1024), (8, 4096), (64, 8192), (128, 64), (256, 512), (4, 65536)]
    lines = []
    for number, (batch, length) in enumerate(shapes):
        for kind in ("bfloat16", "fp8"):
            lines.append(f"vllm,k,{batch},{length},32,8,128,0,bfloat16,{kind},{next(times):.3f}\n")
    return HEADER + "".join(lines)


class Validate(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, times):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as file:
            file.write(rows(iter(times)))
        return path

    def run_validate(self, *words, code=0):
        done = subprocess.run([KVTIDE, "validate", "measured", *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def predictions(self, *words):
        out = os.path.join(self.folder.name, "rows.csv")
        self.run_validate(*words, "--rows", out)
        with open(out) as file:
            return [line.rsplit(",", 1)[1] for line in file]

    def test_predictions_never_read_the_measured_column(self):
        noise = random.Random(1)
        truth = self.predictions(self.write("h100_sxm_decode_attn.csv", [20.0 + n for n in range(12)]))
        other = self.predictions(self.write("h100_sxm_decode_attn.csv", [noise.uniform(1, 1e5) for _ in range(12)]))
        self.assertEqual(truth, other)

    def test_left_out_predictions_never_read_the_gpus_own_rows(self):
        sibling = self.write("h200_sxm_decode_attn.csv", [15.0 + n for n in range(12)])
        noise = random.Random(2)
        own = self.write("h100_sxm_decode_attn.csv", [20.0 + n for n in range(12)])
        first = self.predictions(own, sibling, "--leave-out", "h100_sxm")
        own = self.write("h100_sxm_decode_attn.csv", [noise.uniform(1, 1e5) for _ in range(12)])
        self.assertEqual(first, self.predictions(own, sibling, "--leave-out", "h100_sxm"))
        self.assertEqual(len(first), 13)  # a header and its own rows, none of the sibling's
        # The sibling's rows do feed the fit.
        sibling = self.write("h200_sxm_decode_attn.csv", [40.0 + 2 * n for n in range(12)])
        self.assertNotEqual(first, self.predictions(own, sibling, "--leave-out", "h100_sxm"))

    def test_unknown_gpu_cannot_be_left_out(self):
        own = self.write("l40s_decode_attn.csv", [20.0] * 12)
        self.assertIn("expected one of", self.run_validate(own, "--leave-out", "l40s", code=2).stderr)

    def test_each_predicts_a_gpu_that_was_never_measured_as_it_stands(self):
        own = self.write("l40s_decode_attn.csv", [20.0] * 12)
        self.assertEqual(self.predictions(own), self.predictions(own, "--leave-out", "each"))

    def test_netcdf_holds_what_the_json_says_and_a_picture_lies_beside(self):
        own = self.write("h100_sxm_decode_attn.csv", [20.0 + n for n in range(12)])
        out = os.path.join(self.folder.name, "v.h5")
        printed = json.loads(self.run_validate(own, "-o", out, "--json").stdout)
        with h5py.File(out) as file:
            self.assertEqual(file["groups/ape_median"].attrs["units"], "percent")
            self.assertEqual(len(file["rows/predicted_us"]), 12)
            self.assertEqual(file["rows/predicted_us"].dims[0][0].name, "/rows/row")
            names = file["groups/size_class"].asstr()[...]
            place = list(names).index("all")
            self.assertEqual(file["groups/ape_median"][place], printed["groups"][0]["ape_median"])
        with open(os.path.join(self.folder.name, "v.png"), "rb") as picture:
            self.assertEqual(picture.read(8), b"\x89PNG\r\n\x1a\n")


if __name__ == "__main__":
    unittest.main()
