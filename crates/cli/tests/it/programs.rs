//! Programs that a scripted model writes, and their tests.

pub(crate) const FILTER: &str = r#"import csv
import sys


def select(rows, column, least):
    return [row for row in rows if float(row[column]) >= least]


def main(source, column, least, target):
    with open(source, newline="") as file:
        reader = csv.DictReader(file)
        names, rows = reader.fieldnames, list(reader)
    with open(target, "w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(select(rows, column, float(least)))


if __name__ == "__main__":
    main(*sys.argv[1:])
"#;

pub(crate) const FILTER_TEST: &str = r#"import unittest

from filter import select


class Select(unittest.TestCase):
    def test_the_limit_itself_is_in(self):
        rows = [{"age": "29"}, {"age": "30"}, {"age": "31"}]
        self.assertEqual(select(rows, "age", 30), rows[1:])

    def test_nothing_of_nothing(self):
        self.assertEqual(select([], "age", 30), [])
"#;
