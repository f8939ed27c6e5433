//! The vector instructions that a run is about. What a processor without AVX-512 makes of a call is measured on one that has it, with
//! programs that use no more than the lesser one has.

use std::{fmt, str::FromStr};

use anyhow::{Context, Result};
use serde::Serialize;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    #[default]
    Plain,
    #[serde(rename = "sse4.2")]
    Sse42,
    Avx2,
    Avx512,
}

impl Level {
    const ALL: [Self; 4] = [Self::Plain, Self::Sse42, Self::Avx2, Self::Avx512];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Sse42 => "sse4.2",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The feature that programs for it are built with. The highest level needs none.
    pub(super) const fn feature(self) -> Option<&'static str> {
        match self {
            Self::Plain => Some("bench/level-plain"),
            Self::Sse42 => Some("bench/level-sse42"),
            Self::Avx2 => Some("bench/level-avx2"),
            Self::Avx512 => None,
        }
    }

    /// How much of the floor's CPU a megabyte there and back may cost, by concurrency.
    pub(super) const fn megabyte_bounds(self) -> [(usize, f64); 3] {
        match self {
            Self::Avx512 => [(1, 3.5), (16, 3.0), (64, 2.5)],
            Self::Avx2 | Self::Sse42 | Self::Plain => [(1, 4.5), (16, 4.0), (64, 3.5)],
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Level {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let named = Self::ALL.into_iter().find(|level| level.as_str() == name);
        named.with_context(|| format!("there is no level `{name}`: avx512, avx2, sse4.2, plain"))
    }
}
