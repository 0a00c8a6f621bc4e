#![no_main]

verdigris_fuzz::target!(signed_report);
