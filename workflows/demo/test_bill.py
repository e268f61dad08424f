"""Tests of bill.py: `python -m unittest`."""

import unittest

from bill import cents, split


class Split(unittest.TestCase):
    def test_an_even_bill(self):
        self.assertEqual(split(9000, 3), [3000, 3000, 3000])

    def test_no_cent_gets_lost(self):
        self.assertEqual(sum(split(10000, 3)), 10000)

    def test_nobody_cannot_pay(self):
        with self.assertRaises(ValueError):
            split(100, 0)


class Cents(unittest.TestCase):
    def test_amounts(self):
        self.assertEqual([cents("12"), cents("12.5"), cents("0.07")], [1200, 1250, 7])

    def test_three_decimals_are_refused(self):
        with self.assertRaises(ValueError):
            cents("1.234")


if __name__ == "__main__":
    unittest.main()
