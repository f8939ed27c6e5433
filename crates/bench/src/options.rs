//! `--name value` arguments of the bench programs.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// Arguments by name; what follows `--` is kept apart.
#[derive(Debug, Default)]
pub struct Options {
    named: Vec<(String, String)>,
    pub rest: Vec<String>,
}

impl Options {
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut arguments = arguments.into_iter();
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.strip_prefix("--") {
                Some("") => options.rest = arguments.by_ref().collect(),
                Some(name) => {
                    let value = arguments
                        .next()
                        .with_context(|| format!("--{name} needs a value"))?;
                    options.named.push((name.to_owned(), value));
                }
                None => bail!("unexpected argument `{argument}`"),
            }
        }
        Ok(options)
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.named
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn need(&self, name: &str) -> Result<&str> {
        self.get(name)
            .with_context(|| format!("--{name} is missing"))
    }

    pub fn read<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        text.parse()
            .ok()
            .with_context(|| format!("--{name} cannot be `{text}`"))
    }
}
