"""The statistics that alerts and rollouts decide by. Pure: sees numpy and the contract only.

`binomial` is of one count and a share, `exceedance` of two counts, `e_detector` of a stream of them; `dispersion` says
how much they scatter, `order_statistics` how well a quantile is known, `two_shares` whether a value is as frequent in
one group as in another, and `sketch` has the histograms that they are counted in.

What a quantile's shift is made of: by groups `quantile_shift` (over `mixture`), by parts of a request `tail_parts`;
since when `change_point`, by how much `anytime_quantile`.
"""
