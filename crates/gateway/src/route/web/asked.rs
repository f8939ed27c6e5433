//! What a call asks the web for. What Shape let through has its required texts; the rest is looked at here, before anything is sent.

use std::time::Duration;

use policy::context::WebAddress;
use vocab::Violation;
use wire::{Json, builtin};

use super::invalid;
use crate::{
    call::Order,
    web::{SAVE_TO, argument},
};

const MAX_LENGTH: u64 = 50_000;
const LONGEST: u64 = 1_000_000;
const MAX_RESULTS: u64 = 10;
const MOST_RESULTS: u64 = 20;
const LONGEST_QUERY: usize = 2000;

#[derive(Debug)]
pub(super) enum Asks {
    Fetch(Fetch),
    Search(Search),
}

#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) address: WebAddress,
    pub(super) to_markdown: bool,
    pub(super) follows: bool,
    pub(super) time: Option<Duration>,
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) is_fresh: bool,
    pub(super) as_image: bool,
    pub(super) save_to: Option<String>,
}

#[derive(Debug)]
pub(super) struct Search {
    pub(super) query: String,
    pub(super) most: usize,
}

impl Asks {
    pub(super) fn read(order: &Order) -> Result<Self, Violation> {
        let judged = order.judged();
        let arguments = Json::checked_before(if judged.is_empty() { b"{}" } else { judged });
        let tool = builtin::find(&order.target().name).map(|tool| tool.name);
        Self::of(tool == Some(builtin::SEARCH), arguments)
    }

    fn of(is_search: bool, arguments: Json<'_>) -> Result<Self, Violation> {
        let asks = Arguments(arguments);
        if is_search {
            let query = asks.text("query")?.unwrap_or_default();
            if query.trim().is_empty() || query.len() > LONGEST_QUERY {
                return Err(invalid(format!(
                    "`query` must have 1 to {LONGEST_QUERY} bytes"
                )));
            }
            let most = asks.whole("max_results")?.unwrap_or(MAX_RESULTS);
            return Ok(Self::Search(Search {
                query: query.trim().to_owned(),
                most: size(most.clamp(1, MOST_RESULTS)),
            }));
        }
        let url = asks.text("url")?.unwrap_or_default();
        let address = WebAddress::parse(&url);
        let as_image = match asks.text("as")?.as_deref() {
            None | Some("text") => false,
            Some("image") => true,
            Some(_) => return Err(invalid("`as` must be text or image")),
        };
        Ok(Self::Fetch(Fetch {
            address: address.map_err(|why| invalid(format!("`url` cannot be fetched: {why}")))?,
            to_markdown: asks.flag("to_markdown")?.unwrap_or(true),
            follows: asks.flag("follow_redirects")?.unwrap_or(true),
            time: asks
                .whole("timeout_secs")?
                .map(|seconds| Duration::from_secs(seconds.max(1))),
            start: size(asks.whole("start_index")?.unwrap_or_default()),
            length: size(
                asks.whole("max_length")?
                    .unwrap_or(MAX_LENGTH)
                    .clamp(1, LONGEST),
            ),
            is_fresh: asks.flag("fresh")?.unwrap_or_default(),
            as_image,
            save_to: asks.text(SAVE_TO)?,
        }))
    }

    pub(super) const fn time(&self) -> Option<Duration> {
        match self {
            Self::Fetch(fetch) => fetch.time,
            Self::Search(_) => None,
        }
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

struct Arguments<'a>(Json<'a>);

impl Arguments<'_> {
    fn text(&self, key: &str) -> Result<Option<String>, Violation> {
        let text = argument(self.0, key).map(|value| value.as_str());
        match text {
            None => Ok(None),
            Some(Some(text)) => Ok(Some(text.into_owned())),
            Some(None) => Err(invalid(format!("`{key}` must be text"))),
        }
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Violation> {
        let flag = argument(self.0, key).map(|value| value.as_bool());
        match flag {
            None => Ok(None),
            Some(Some(flag)) => Ok(Some(flag)),
            Some(None) => Err(invalid(format!("`{key}` must be true or false"))),
        }
    }

    fn whole(&self, key: &str) -> Result<Option<u64>, Violation> {
        let whole = argument(self.0, key).map(|value| value.as_u64());
        match whole {
            None => Ok(None),
            Some(Some(whole)) => Ok(Some(whole)),
            Some(None) => Err(invalid(format!("`{key}` must be a whole number"))),
        }
    }
}
