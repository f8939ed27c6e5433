//! Each rule of the conversations, with a gate that only counts epochs.

use proptest::prelude::*;

use super::*;

/// A home, and what a gate would say.
struct Desk {
    home: Home,
    _dir: tempfile::TempDir,
    epoch: u64,
    label: &'static str,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        home.prepare().unwrap();
        Self {
            home,
            _dir: dir,
            epoch: 7,
            label: "PUBLIC",
        }
    }

    fn take(&self) -> Conversations {
        Conversations::take(&self.home).unwrap()
    }

    fn open(&self, id: &str, start: Start) {
        self.take().opened(name(id), start).unwrap();
    }

    /// A prompt, and what the gate is asked for it; the gate does it.
    fn say(&mut self, id: &str) -> Step {
        let mut conversations = self.take();
        let step = conversations.spoke(name(id), true, true).unwrap();
        let was = self.label;
        if matches!(step, Step::Begin { .. }) {
            self.epoch += 1;
        }
        let answer = Answer {
            epoch: self.epoch,
            was,
        };
        let next = conversations.answered(name(id), &step, answer).unwrap();
        if next == Step::Nothing {
            return step;
        }
        let last = conversations.answered(name(id), &next, answer).unwrap();
        assert_eq!(last, Step::Nothing);
        next
    }

    fn end(&self, id: &str) {
        self.take().ended(name(id)).unwrap();
    }
}

fn name(id: &str) -> Name<'_> {
    Name {
        caller: "c1",
        client: "claude-code",
        id,
    }
}

fn begin(at_least: Option<&str>) -> Step {
    Step::Begin {
        at_least: at_least.map(str::to_owned),
    }
}

fn go_on(at_least: Option<&str>) -> Step {
    Step::Continue {
        at_least: at_least.map(str::to_owned),
    }
}

#[test]
fn a_new_conversation_begins_and_then_goes_on() {
    let mut desk = Desk::new();
    desk.open("a", Start::New);
    assert_eq!(desk.say("a"), begin(None));
    assert_eq!(desk.say("a"), go_on(None));
    desk.open("a", Start::Known);
    assert_eq!(desk.say("a"), go_on(None), "it was compacted");
}

/// A window whose prompt could not be written down may have read anything: it is not silent, and none begins clean beside it.
#[test]
fn a_prompt_that_was_missed_makes_nobody_silent() {
    let mut desk = Desk::new();
    desk.open("a", Start::New);
    desk.open("b", Start::New);
    Conversations::miss(&desk.home).unwrap();
    desk.end("a");
    desk.open("c", Start::New);
    assert_ne!(
        desk.say("c"),
        begin(None),
        "the second spoke, or the first did"
    );
    desk.end("b");
    desk.end("c");
    desk.open("d", Start::New);
    assert_eq!(desk.say("d"), begin(None), "it is forgotten in the end");
}

#[test]
fn a_second_window_washes_nothing_off() {
    let mut desk = Desk::new();
    desk.open("a", Start::New);
    desk.open("b", Start::New);
    assert_eq!(
        desk.say("a"),
        begin(None),
        "who has not spoken has read nothing"
    );
    assert_eq!(desk.say("b"), go_on(None));
    desk.end("a");
    desk.open("c", Start::New);
    assert_eq!(desk.say("c"), go_on(None), "the second is still open");
    desk.end("b");
    desk.end("c");
    desk.open("d", Start::New);
    assert_eq!(desk.say("d"), begin(None));
}

#[test]
fn another_client_with_the_credential_counts_and_another_credential_does_not() {
    let mut desk = Desk::new();
    desk.open("a", Start::New);
    desk.say("a");
    let other = Name {
        client: "cursor",
        ..name("a")
    };
    let mut conversations = desk.take();
    conversations.opened(other, Start::New).unwrap();
    assert_eq!(conversations.spoke(other, true, true).unwrap(), go_on(None));
    let stranger = Name {
        caller: "c2",
        ..name("a")
    };
    conversations.opened(stranger, Start::New).unwrap();
    assert_eq!(
        conversations.spoke(stranger, true, true).unwrap(),
        begin(None)
    );
}

#[test]
fn who_comes_back_has_the_label_it_was_left_with() {
    let mut desk = Desk::new();
    desk.open("a", Start::New);
    desk.say("a");
    desk.label = "INTERNAL+untrusted";
    desk.end("a");
    desk.open("a", Start::Known);
    assert_eq!(
        desk.say("a"),
        go_on(None),
        "nobody has begun anything since"
    );
    desk.end("a");
    desk.open("b", Start::New);
    assert_eq!(desk.say("b"), begin(None));
    desk.label = "PUBLIC";
    desk.open("a", Start::Known);
    assert_eq!(
        desk.say("a"),
        go_on(Some("INTERNAL+untrusted")),
        "`b` is open"
    );
    desk.label = "CONFIDENTIAL+untrusted";
    desk.end("a");
    desk.end("b");
    desk.open("c", Start::New);
    assert_eq!(desk.say("c"), begin(None));
    desk.end("c");
    desk.label = "PUBLIC";
    desk.open("b", Start::Known);
    assert_eq!(desk.say("b"), begin(Some("CONFIDENTIAL+untrusted")));
}

#[test]
fn what_is_not_known_is_untrusted() {
    let mut desk = Desk::new();
    desk.open("resumed", Start::Known);
    assert_eq!(desk.say("resumed"), begin(Some("unknown")));
    assert_eq!(desk.say("never opened"), go_on(Some("unknown")));
    desk.end("resumed");
    desk.end("never opened");
    desk.open("scheduled", Start::New);
    let mut conversations = desk.take();
    let step = conversations.spoke(name("scheduled"), false, true).unwrap();
    assert_eq!(step, begin(Some("unknown")), "no person began it");
    conversations.opened(name("forked"), Start::New).unwrap();
    let step = conversations.spoke(name("forked"), true, false).unwrap();
    assert_eq!(step, go_on(Some("unknown")), "it only looks new");
}

/// Somebody else began an epoch, or the answer was lost: nobody knows what was seen before.
#[test]
fn a_reset_from_elsewhere_makes_labels_unknown() {
    let mut desk = Desk::new();
    desk.open("a", Start::New);
    desk.say("a");
    desk.epoch += 3;
    desk.end("a");
    desk.open("b", Start::New);
    desk.say("b");
    desk.end("b");
    desk.open("a", Start::Known);
    assert_eq!(desk.say("a"), begin(Some("unknown")));
    desk.epoch += 1;
    assert_eq!(
        desk.say("a"),
        go_on(None),
        "the person reset it, and it is under way"
    );
    desk.end("a");
    desk.open("c", Start::New);
    assert_eq!(desk.say("c"), begin(None));
    desk.end("c");
    desk.open("a", Start::Known);
    assert_eq!(desk.say("a"), begin(Some("unknown")));
    desk.end("a");
    desk.epoch += 1;
    desk.open("a", Start::Known);
    assert_eq!(
        desk.say("a"),
        go_on(Some("unknown")),
        "the reset was not meant for who was away"
    );
}

#[test]
fn a_gate_that_does_not_answer_leaves_the_conversation_open_and_unknown() {
    let mut desk = Desk::new();
    desk.open("a", Start::New);
    assert_eq!(
        desk.take().spoke(name("a"), true, true).unwrap(),
        begin(None)
    );
    desk.open("b", Start::New);
    assert_eq!(desk.say("b"), go_on(None), "`a` is open");
    assert_eq!(desk.say("a"), go_on(Some("unknown")));
}

#[test]
fn the_file_is_bounded_and_what_is_open_is_never_forgotten() {
    let desk = Desk::new();
    let mut conversations = desk.take();
    conversations.opened(name("first"), Start::New).unwrap();
    conversations.spoke(name("first"), true, true).unwrap();
    for number in 0..MOST_KNOWN + 10 {
        let id = format!("conversation {number}");
        conversations.opened(name(&id), Start::Known).unwrap();
        conversations.ended(name(&id)).unwrap();
    }
    conversations.opened(name("last"), Start::New).unwrap();
    assert_eq!(
        conversations.spoke(name("last"), true, true).unwrap(),
        go_on(None)
    );
    for number in 0..MOST_KNOWN {
        let id = format!("open {number}");
        let opened = conversations.opened(name(&id), Start::New);
        assert_eq!(opened.is_ok(), number + 2 < MOST_KNOWN, "{number}");
    }
    let bytes = fs::metadata(desk.home.conversations_file()).unwrap().len();
    assert!(
        bytes * u64::try_from(MOST_CALLERS).unwrap() < MOST_BYTES,
        "{bytes}"
    );
}

#[test]
fn a_damaged_file_is_said_and_kept() {
    let desk = Desk::new();
    let file = desk.home.conversations_file();
    for damage in ["", "{", "[]", "{\"callers\": 3}"] {
        fs::write(&file, damage).unwrap();
        let error = Conversations::take(&desk.home).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), damage);
    }
}

#[derive(Debug, Clone)]
enum Act {
    Open(usize, bool),
    Say(usize),
    Notify(usize),
    End(usize),
    /// The agent of an open conversation reads what a stranger wrote.
    Read(usize),
    Reset,
}

fn act() -> impl Strategy<Value = Act> {
    let who = 0..4usize;
    prop_oneof![
        (who.clone(), any::<bool>()).prop_map(|(who, is_new)| Act::Open(who, is_new)),
        who.clone().prop_map(Act::Say),
        who.clone().prop_map(Act::Notify),
        who.clone().prop_map(Act::End),
        who.prop_map(Act::Read),
        Just(Act::Reset),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever is opened, left and resumed in which order: an agent that has read a stranger's words never goes on in a clean session, unless a
    /// person reset it under that agent's eyes.
    #[test]
    fn no_order_of_windows_washes_off_what_an_agent_has_read(acts in proptest::collection::vec(act(), 1..40)) {
        const IDS: [&str; 4] = ["a", "b", "c", "d"];
        let desk = Desk::new();
        let mut conversations = desk.take();
        let (mut epoch, mut is_untrusted) = (1u64, false);
        // Whether each has read a stranger's words, is open, and has spoken since it was opened.
        let (mut has_read, mut is_open, mut speaks) = ([false; 4], [false; 4], [false; 4]);
        let mut is_used = [false; 4];
        for act in acts {
            match act {
                Act::Open(who, is_new) if !is_open[who] => {
                    // A client says that a conversation is new only the first time.
                    let start = if is_new && !is_used[who] { Start::New } else { Start::Known };
                    if start == Start::Known && !is_used[who] {
                        has_read[who] = true;
                    }
                    is_used[who] = true;
                    conversations.opened(name(IDS[who]), start).unwrap();
                    (is_open[who], speaks[who]) = (true, false);
                }
                Act::Say(who) | Act::Notify(who) if is_open[who] => {
                    let is_said = matches!(act, Act::Say(_));
                    let mut step = conversations.spoke(name(IDS[who]), is_said, true).unwrap();
                    while step != Step::Nothing {
                        let was = if is_untrusted { "PUBLIC+untrusted" } else { "PUBLIC" };
                        let (Step::Begin { at_least } | Step::Continue { at_least }) = &step else {
                            break;
                        };
                        if matches!(step, Step::Begin { .. }) {
                            (epoch, is_untrusted) = (epoch + 1, false);
                        }
                        is_untrusted |= at_least.as_deref().is_some_and(|label| label != "PUBLIC");
                        let answer = Answer { epoch, was };
                        step = conversations.answered(name(IDS[who]), &step, answer).unwrap();
                    }
                    speaks[who] = true;
                }
                Act::End(who) if is_open[who] => {
                    conversations.ended(name(IDS[who])).unwrap();
                    is_open[who] = false;
                }
                Act::Read(who) if is_open[who] && speaks[who] => {
                    has_read[who] = true;
                    is_untrusted = true;
                }
                Act::Reset => {
                    (epoch, is_untrusted) = (epoch + 1, false);
                    // The person did it under the eyes of those that are open.
                    for who in 0..4 {
                        has_read[who] &= !(is_open[who] && speaks[who]);
                    }
                }
                _ => {}
            }
            for who in 0..4 {
                prop_assert!(
                    !(is_open[who] && speaks[who] && has_read[who]) || is_untrusted,
                    "{} goes on clean", IDS[who]
                );
            }
        }
    }
}
