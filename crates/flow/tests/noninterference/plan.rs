//! What happens when, drawn from a seed.

use std::hash::{DefaultHasher, Hash, Hasher};

use vocab::Level;

/// Which rule of the gate is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    NeverWeighs,
    WeighsBeforeReceived,
    AbsorbsAfterShowing,
    ShowsBeforeSaving,
    ForgetsAtRestart,
    ForgetsTheArrival,
    ForgetsWhatIsLeaving,
}

/// When people reset sessions. In the middle of calls, whether something of the old epoch is still to be shown is itself a secret of
/// that epoch, and the new label tells it: then only the values are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resets {
    WhenQuiet,
    AtAnyTime,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) levels: Vec<Level>,
    pub(crate) callers: usize,
    /// How often each agent acts.
    pub(crate) wakes: u64,
    pub(crate) seed: u64,
    pub(crate) is_killed: bool,
    pub(crate) resets: Resets,
    pub(crate) flaw: Flaw,
}

/// The longest time between two events of one call, and the number of its events.
const PAUSE: u64 = 100;
const EVENTS: u64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Wake,
    Weigh,
    Dispatch,
    Return,
    Save,
    Show,
    TooLate,
    Reset,
    Kill,
}

/// When, whose, which of their calls, what.
pub(crate) type Key = (u64, usize, u64, Event);

/// Everything that can happen, drawn from the seed alone.
pub(crate) fn timetable(plan: &Plan) -> Vec<Key> {
    let horizon = plan.wakes * PAUSE;
    let draw = |what: (&str, usize, u64, u64), below: u64| digest((plan.seed, what)) % below;
    let mut events = Vec::new();
    if plan.is_killed {
        events.push((draw(("kill", 0, 0, 0), horizon), 0, 0, Event::Kill));
    }
    for caller in 0..plan.callers {
        let reset = draw(("reset", caller, 0, 0), horizon);
        events.push((reset, caller, 0, Event::Reset));
        for wake in 0..plan.wakes {
            let mut time = draw(("wake", caller, wake, 0), horizon);
            if plan.resets == Resets::WhenQuiet
                && time <= reset
                && reset <= time + (EVENTS + 1) * PAUSE
            {
                continue;
            }
            events.push((time, caller, wake, Event::Wake));
            let order = if plan.flaw == Flaw::ShowsBeforeSaving {
                [
                    Event::Weigh,
                    Event::Dispatch,
                    Event::Return,
                    Event::Show,
                    Event::Save,
                    Event::TooLate,
                ]
            } else {
                [
                    Event::Weigh,
                    Event::Dispatch,
                    Event::Return,
                    Event::Save,
                    Event::Show,
                    Event::TooLate,
                ]
            };
            for (number, event) in (1..).zip(order) {
                time += 1 + draw(("pause", caller, wake, number), PAUSE);
                events.push((time, caller, wake, event));
            }
        }
    }
    events
}

pub(crate) fn digest(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
