#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::worker_parts(data));
