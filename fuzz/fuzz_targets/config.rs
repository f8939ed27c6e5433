#![no_main]

use std::path::Path;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::config(data, |text| {
    config::parse(Path::new("portcullis.yaml"), text).map(drop).map_err(|report| report.to_string())
}));
