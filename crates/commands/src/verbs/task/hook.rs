//! `portcullis task hook`: a client's hook tells what a person typed, and when a conversation opens and ends.
//!
//! Nothing is printed on standard output: clients show that to their models. Which prompts begin a conversation and which go on is decided in
//! `home::conversations`; what counts as a person's words, in `event`.

mod event;
mod transcript;

use std::{
    io::{self, Read, Write as _},
    time::Duration,
};

use api::ask;
use home::{
    Home,
    conversations::{Answer, Conversations, Name, Step},
};
use terminal::{Exit, Trouble, style::tame};

use self::event::{Event, What};
use crate::{args, chosen_credential, line::Line};

/// A client waits for its hooks before a prompt goes on.
const PATIENCE: Duration = Duration::from_secs(3);
/// What a client tells a hook: a prompt, and some fields around it.
const MOST_BYTES: u64 = 8 << 20;

/// Never fails but under `--strict`, and then with the one code that clients take for a no.
pub(super) fn run(
    args: &args::TaskHook,
    home: &Home,
    input: &mut impl Read,
) -> Result<Exit, Trouble> {
    let (is_prompt, told) = tell(args, home, input);
    let Err(trouble) = told else {
        return Ok(Exit::Done);
    };
    let message = format!("the gate did not hear this: {}", trouble.message);
    if args.strict && is_prompt {
        return Err(Trouble::usage(message));
    }
    // Clients show this to nobody, or to the person.
    let said = writeln!(io::stderr().lock(), "portcullis: {}", tame(&message));
    drop(said);
    Ok(Exit::Done)
}

/// Whether it was a prompt, as far as that is known, and what came of telling the gate.
fn tell(args: &args::TaskHook, home: &Home, input: &mut impl Read) -> (bool, Result<(), Trouble>) {
    let mut text = Vec::new();
    let read = input.take(MOST_BYTES + 1).read_to_end(&mut text);
    if let Err(error) = read {
        missed(home);
        return (true, Err(error.into()));
    }
    if text.len() as u64 > MOST_BYTES {
        missed(home);
        let why = format!("the hook was told more than {MOST_BYTES} bytes");
        return (true, Err(Trouble::failed(why)));
    }
    match Event::read(&args.client, &text) {
        Err(why) => {
            missed(home);
            (true, Err(Trouble::failed(why)))
        }
        Ok(None) => (false, Ok(())),
        Ok(Some(event)) => {
            let is_prompt = matches!(event.what, What::Prompt { .. });
            (is_prompt, tell_event(args, home, &event))
        }
    }
}

/// Whoever spoke is not written down as one who did. What cannot be written at all is said by the trouble that led here.
fn missed(home: &Home) {
    drop(Conversations::miss(home));
}

fn tell_event(args: &args::TaskHook, home: &Home, event: &Event) -> Result<(), Trouble> {
    let caller = chosen_credential::known(&args.caller, home)?;
    let name = Name {
        caller: &caller,
        client: &args.client,
        id: &event.id,
    };
    let unwritten = |error| {
        if matches!(event.what, What::Prompt { .. }) {
            missed(home);
        }
        Trouble::failed(error)
    };
    let mut conversations = Conversations::take(home).map_err(unwritten)?;
    match &event.what {
        What::Opened(start) => conversations.opened(name, *start).map_err(Trouble::failed),
        What::Ended => conversations.ended(name).map_err(Trouble::failed),
        What::Prompt {
            said,
            is_clean,
            start,
        } => {
            if let Some(start) = start {
                conversations.opened(name, *start).map_err(unwritten)?;
            }
            let mut step = conversations
                .spoke(name, said.is_some(), *is_clean)
                .map_err(unwritten)?;
            let mut words = said.as_deref().unwrap_or_default();
            while let Some(task) = task(&caller, words, &step) {
                let mut line = Line::as_operator(home)?.within(PATIENCE)?;
                let begun = line.ask_for(ask::BeginTask, "", &task)?;
                let (Some(epoch), Some(was)) = (begun.epoch, &begun.was) else {
                    return Err(Trouble::failed(
                        "the gate does not say which conversation it was: this needs an operator's credential",
                    ));
                };
                let answer = Answer { epoch, was };
                step = conversations
                    .answered(name, &step, answer)
                    .map_err(Trouble::failed)?;
                words = "";
            }
            Ok(())
        }
    }
}

/// What to ask of the gate, if there is anything.
fn task(caller: &str, words: &str, step: &Step) -> Option<api::Task> {
    let (continues, at_least) = match step {
        Step::Nothing => return None,
        Step::Begin { at_least } => (false, at_least.clone()),
        Step::Continue { at_least } => (true, at_least.clone()),
    };
    // Without words the gate takes a task that raises something: the least there is.
    let is_silent = continues && words.trim().is_empty();
    let at_least = at_least.or_else(|| is_silent.then(|| vocab::Mark::default().to_string()));
    let most = words.floor_char_boundary(api::MAX_TASK);
    Some(api::Task {
        caller: caller.to_owned(),
        text: words.get(..most).unwrap_or_default().to_owned(),
        continues,
        at_least,
    })
}

#[cfg(test)]
mod tests;
