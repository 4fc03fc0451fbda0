"""What commands print: tables, records, and documents for programs."""
