import pytest

from telic.studies._git_read import first_match, read_patch


def read(folder, text):
    (folder / "x.diff").write_text(text)
    return read_patch(folder, folder / "x.diff")


TWO_FILES = """\
diff --git a/src/reward.py b/src/reward.py
--- a/src/reward.py
+++ b/src/reward.py
@@ -1,3 +1,3 @@
 keep
--- a/eval.py
+++ b/eval.py
 keep
diff --git a/old.py b/new.py
similarity index 100%
rename from old.py
rename to new.py
"""


def test_a_changed_line_that_looks_like_a_header_is_not_a_file(tmp_path):
    found = read(tmp_path, TWO_FILES)
    assert found.files == ("src/reward.py", "new.py", "old.py") and found.problems == ()


def test_a_new_file_counts_once_and_each_line(tmp_path):
    text = "--- /dev/null\n+++ b/a b.py\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    assert read(tmp_path, text) == (("a b.py",), (), ("one", "two"), ())


LINK = "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (LINK, "mode 120000"),
        ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", "leaves the repository"),
        ("--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n", "touches no file"),
        ("diff --git a/x b/x\nGIT binary patch\n", "binary"),
        ("nothing here\n", "touches no file"),
    ],
)
def test_what_nobody_could_review_is_a_problem(tmp_path, text, part):
    assert any(part in each for each in read(tmp_path, text).problems)


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("src/reward.py", "src/**/reward*.py", True),
        ("src/a/b/reward_x.py", "src/**/reward*.py", True),
        ("src/a/b/other.py", "src/**/reward*.py", False),
        ("eval.py", "**/eval*.py", True),
        ("a/evaluate.py", "**/eval*.py", True),
        ("a/medieval.py", "**/eval*.py", False),
        ("assets/robot/mesh.stl", "assets/**", True),
        ("assets/robot/mesh.stl", "assets", True),
        ("assets2/x", "assets", False),
        ("src/rewards/deep/x.py", "src/reward*", False),
        ("a.b", "a?b", True),
        ("a/b", "a?b", False),
    ],
)
def test_patterns_mean_what_people_expect(path, pattern, expected):
    assert (first_match(path, [pattern]) == pattern) is expected
