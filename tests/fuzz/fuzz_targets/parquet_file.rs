#![no_main]

verdigris_fuzz::target!(catching parquet_file);
