//! The scripts: one line each, with what a gate must make of a call to such a server.

use std::fmt;
use std::str::FromStr;

/// What the caller of a tool must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The honest answer, whatever else was sent.
    Answer,
    /// A definite error.
    Error,
    /// The honest answer or a definite error; which of them is a matter of taste.
    Either,
    /// The server never becomes callable; its tools may not even be listed.
    Unreachable,
}

macro_rules! scripts {
    ($($variant:ident, $name:literal, $http:literal, $stdio:literal, $verdict:ident, $about:literal;)*) => {
        /// One way to misbehave.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Script {
            $(#[doc = $about] $variant),*
        }

        impl Script {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Whether it makes sense over HTTP.
            pub fn on_http(self) -> bool {
                match self { $(Self::$variant => $http),* }
            }

            /// Whether it makes sense over stdio.
            pub fn on_stdio(self) -> bool {
                match self { $(Self::$variant => $stdio),* }
            }

            pub fn verdict(self) -> Verdict {
                match self { $(Self::$variant => Verdict::$verdict),* }
            }

            pub fn about(self) -> &'static str {
                match self { $(Self::$variant => $about),* }
            }
        }
    };
}

scripts! {
    Honest, "honest", true, true, Answer, "Behaves; the control.";
    WrongId, "wrong-id", true, true, Answer, "A thousand answers to other ids, then the right one.";
    WrongIdOnly, "wrong-id-only", true, true, Error, "A thousand answers to other ids, never the right one.";
    OddIds, "odd-ids", true, true, Either, "Answers to ids that are no ids, then the right one.";
    DoubleReply, "double-reply", true, true, Answer, "The right answer, then two more for the same id.";
    EarlyReply, "early-reply", true, true, Answer, "Answers to the next fifty ids before this one.";
    Drip, "drip", true, true, Answer, "The right answer, one byte at a time.";
    DripForever, "drip-forever", true, true, Error, "One byte now and then, never an answer.";
    HangAt, "hang-at", true, true, Error, "The first N bytes of the answer, then silence.";
    CloseAt, "close-at", true, true, Error, "The first N bytes of the answer, then the end.";
    Garbage, "garbage", true, true, Error, "Random bytes instead of an answer.";
    NotJson, "not-json", true, true, Error, "A web page instead of an answer.";
    Empty, "empty", true, false, Error, "Status 200 and nothing.";
    ServerErrors, "server-errors", true, false, Error, "Status 500 for every call.";
    Redirect, "redirect", true, false, Error, "Sends the call to another host.";
    HugeHeader, "huge-header", true, false, Error, "A response head of many MiB.";
    GzipBomb, "gzip-bomb", true, false, Error, "Ten GiB of zeros in ten MB of gzip.";
    EndlessEvents, "endless-events", true, true, Error, "Notifications without end instead of an answer.";
    GiantEvent, "giant-event", true, true, Error, "One event that never ends.";
    HugeResult, "huge-result", true, true, Error, "A result larger than the gate forwards.";
    DeepJson, "deep-json", true, true, Error, "A result nested a hundred thousand deep.";
    DuplicateKeys, "duplicate-keys", true, true, Error, "A result with two `content`s.";
    BadUtf8, "bad-utf8", true, true, Error, "A text that is not UTF-8.";
    LoneSurrogate, "lone-surrogate", true, true, Error, "A text with half a surrogate pair.";
    NotANumber, "not-a-number", true, true, Error, "NaN where JSON has no such thing.";
    NotAResult, "not-a-result", true, true, Error, "A result that is a number.";
    AskFlood, "ask-flood", true, true, Answer, "Thousands of requests to the client before the answer.";
    ProgressFlood, "progress-flood", true, true, Answer, "Progress for tokens nobody gave.";
    ChangeFlood, "change-flood", true, true, Answer, "Twenty thousand list changes before the answer.";
    MillionTools, "million-tools", true, true, Answer, "A thousand pages of a thousand tools.";
    TallPage, "tall-page", true, true, Unreachable, "A quarter of a million tools on one page.";
    CursorLoop, "cursor-loop", true, true, Answer, "Every page points at itself.";
    CursorEndless, "cursor-endless", true, true, Answer, "Every page points at a new, empty one.";
    BadNames, "bad-names", true, true, Answer, "Tools with repeated, look-alike and impossible names.";
    SlowHandshake, "slow-handshake", true, true, Unreachable, "Takes minutes to say hello.";
    ExitAtCall, "exit-at-call", true, true, Error, "Goes away at every call.";
    StdoutNoise, "stdout-noise", false, true, Answer, "Chatter between the messages.";
    LongLine, "long-line", false, true, Answer, "A line of 64 MiB before the answer.";
    StderrFlood, "stderr-flood", false, true, Answer, "64 MiB on stderr before the answer.";
    Deaf, "deaf", false, true, Answer, "Ignores the end of its input and every polite signal.";
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|script| script.name() == text)
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|script| script.name()).collect();
                format!("unknown script '{text}': use one of {}", names.join(", "))
            })
    }
}
