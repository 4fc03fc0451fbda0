"""The ledger: its page, how its entries are folded for a reader, and the files of them."""
