//! Entries of a deny list: a tool, or a tool with certain arguments.

use std::fmt;

use wire::{Json, Kind};

use super::{
    BadPattern, ToolPattern,
    command::{CommandLine, First},
    domain::DomainPattern,
    path::{NormalPath, PathPattern, is_like},
    reach::{Address, Family, Place, Reach},
};

/// `fs.delete`, `fs.*`, `*`; or with what it is about: `cmd.run:rm`, `cmd.run:git push`, `fs.read:/etc/*`, `web.fetch:*.evil.com`.
///
/// What follows the colon is compared with the path, the host or the command the call is for. A tool whose arguments the gate does
/// not know is compared text by text: any string in its arguments that is like it denies the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    tool: ToolPattern,
    about: Option<About>,
}

/// The same words, in every way they can be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct About {
    text: String,
    path: Option<PathPattern>,
    domain: Option<DomainPattern>,
}

impl Denial {
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        let Some((tool, about)) = text.split_once(':') else {
            return Ok(Self {
                tool: ToolPattern::parse(text)?,
                about: None,
            });
        };
        if about.trim().is_empty() || about.trim() != about {
            return Err(BadPattern(
                "after the colon stands a command, a path or a domain, as in `cmd.run:rm`",
            ));
        }
        let (path, domain) = (
            PathPattern::parse(about).ok(),
            DomainPattern::parse(about).ok(),
        );
        let tool = ToolPattern::parse(tool)?;
        let is_about = |prefix: &str| tool.to_string().starts_with(prefix);
        if (is_about("fs.") && path.is_none()) || (is_about("web.") && domain.is_none()) {
            return Err(BadPattern(
                "after the colon stands a path for `fs.` tools and a domain for `web.` tools",
            ));
        }
        Ok(Self {
            tool,
            about: Some(About {
                text: about.to_owned(),
                path,
                domain,
            }),
        })
    }

    /// Whether it denies the tool whatever its arguments are.
    #[must_use]
    pub fn denies_all_of(&self, tool: &str) -> bool {
        self.about.is_none() && self.tool.matches(tool)
    }

    pub(super) fn denies<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        reach: &Reach<'_>,
    ) -> bool {
        self.is_for(names)
            && self
                .about
                .as_ref()
                .is_none_or(|about| about.is_about(reach, self.family()))
    }

    /// Whether it is about a file, and which file the call is for cannot be told.
    pub(super) fn may_deny<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        reach: &Reach<'_>,
    ) -> bool {
        let is_about_files = self
            .about
            .as_ref()
            .is_some_and(|about| about.path.is_some());
        let cannot_tell = |place: &Place| place.path.is_err() || reach.is_elsewhere(place);
        is_about_files
            && matches!(self.family(), Family::Files | Family::Other)
            && reach.is(Family::Files)
            && self.is_for(names)
            && reach.places.iter().any(cannot_tell)
    }

    fn is_for<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> bool {
        names.into_iter().any(|name| self.tool.matches(name))
    }

    fn family(&self) -> Family {
        Family::of(&self.tool.to_string())
    }
}

impl About {
    /// An address or a command that cannot be read is what it is about: a denial is not got around by writing unclearly. A pattern of one family is about what
    /// that family reaches for; any other is about all of it, and about every text.
    fn is_about(&self, reach: &Reach<'_>, pattern: Family) -> bool {
        let may_be = |family: Family| matches!(pattern, Family::Other) || pattern == family;
        let is_net = [Family::Web, Family::Search, Family::Mail]
            .into_iter()
            .any(|family| reach.is(family) && may_be(family));
        (reach.is(Family::Files)
            && may_be(Family::Files)
            && reach.paths().any(|path| self.covers(path)))
            || (reach.is(Family::Command) && may_be(Family::Command) && self.is_run(reach))
            || (is_net && self.is_destination(&reach.addresses))
            || (is_net
                && reach
                    .accounts
                    .iter()
                    .any(|account| is_like(&self.text, account)))
            || (may_be(Family::Other) && self.is_among(reach.arguments))
            || (reach.is_unknown() && self.is_anywhere(reach))
    }

    fn covers(&self, path: &NormalPath) -> bool {
        self.path.as_ref().is_some_and(|own| own.covers(path))
    }

    fn is_destination(&self, addresses: &[Address]) -> bool {
        addresses
            .iter()
            .any(|address| match (&address.host, &self.domain) {
                (Err(_), _) => true,
                (Ok(host), Some(own)) => own.matches(host),
                (Ok(_), None) => false,
            })
    }

    fn is_run(&self, reach: &Reach<'_>) -> bool {
        let is_unclear =
            self.path.is_some() && reach.places.iter().any(|place| place.path.is_err());
        is_unclear
            || reach
                .command
                .as_ref()
                .is_some_and(|line| self.is_command(line))
            || reach.paths().any(|path| self.covers(path))
    }

    /// In the arguments of a tool that says nothing about itself.
    fn is_anywhere(&self, reach: &Reach<'_>) -> bool {
        self.is_among(reach.arguments)
            || reach.every_place().iter().any(|place| {
                place
                    .path
                    .as_ref()
                    .map_or(self.path.is_some(), |path| self.covers(path))
            })
            || (self.domain.is_some() && self.is_destination(&reach.every_address()))
    }

    /// By the program's name wherever it lies, or by the command as written; with a second word, only if that is among its arguments.
    fn is_command(&self, line: &CommandLine) -> bool {
        let (own, argument) = self
            .text
            .split_once(' ')
            .map_or((self.text.as_str(), None), |(own, rest)| (own, Some(rest)));
        let is_own = line.command.is_empty()
            || line.elsewhere.is_some()
            || [line.command.trim(), line.program()]
                .iter()
                .any(|name| is_like(own, name) || is_like(&self.text, name));
        let has = |argument: &str| {
            line.first == First::Unreadable
                || line.args.iter().any(|given| is_like(argument, given))
        };
        is_own && argument.is_none_or(has)
    }

    fn is_among(&self, json: Json<'_>) -> bool {
        match json.kind() {
            Kind::String => json.as_str().is_some_and(|text| is_like(&self.text, &text)),
            Kind::Array => json.items().any(|item| self.is_among(item)),
            Kind::Object => json.fields().any(|(_, value)| self.is_among(value)),
            Kind::Number | Kind::Bool => is_like(&self.text, json.text()),
            Kind::Null => false,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.about {
            Some(about) => write!(f, "{}:{}", self.tool, about.text),
            None => write!(f, "{}", self.tool),
        }
    }
}
