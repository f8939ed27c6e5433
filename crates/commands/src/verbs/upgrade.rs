//! `portcullis upgrade check`: what an earlier version decided in this home by a guess, and this version would decide more carefully.

use home::Home;
use terminal::{Exit, Screen, Trouble, style::tame};

use crate::{args, files::of_home};

pub fn run(verb: &args::Upgrade, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let args::Upgrade::Check = verb;
    let (_, resolved) = of_home(home)?;
    let pins = gateway::Pins::open(home.lock_file()).map_err(Trouble::failed)?;
    let undecided = pins.undecided(&resolved.servers);
    let mut text = String::new();
    for one in &undecided {
        text.push_str(&format!("{}\n  {}\n", tame(&one.what), tame(&one.decide)));
    }
    if undecided.is_empty() {
        text.push_str("Nothing in this home rests on a guess of an earlier version.\n");
    }
    screen.show(&serde_json::json!({ "undecided": undecided }), &text)?;
    Ok(Exit::Done)
}
