"""What people do with an encoder: embed pictures, then search, map, clean, select and classify."""
