//! `portcullis audit sinks`: from the gate, or from the files where none runs.

use audit::Filter;
use home::Home;
use terminal::{Exit, Screen, Trouble};

use crate::{
    files::{self},
    line::Line,
    render,
    verbs::audit::unreadable,
};

pub(super) fn show(home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let sinks = match Line::as_operator(home) {
        Ok(mut line) => line.ask(api::ask::Sinks)?,
        Err(trouble) if trouble.exit == Exit::NotRunning => resting(home)?,
        Err(trouble) => return Err(trouble),
    };
    screen.show(&sinks, &render::sinks(&sinks, screen.style))?;
    Ok(Exit::Done)
}

/// Without a gate nothing is delivered, and the cursors say where it will go on.
fn resting(home: &Home) -> Result<Vec<api::Sink>, Trouble> {
    let (_, resolved) = files::of_home(home)?;
    let last = audit::tail(&home.ledger, &Filter::default(), 1)
        .map_err(|error| unreadable(home, &error))?;
    let end = last.first().map_or(0, |record| record.seq + 1);
    let views = resolved.sinks.iter().map(|spec| {
        let (next, error) = match sinks::position(&home.sinks(), &spec.name) {
            Ok(place) => (place.unwrap_or_default(), String::new()),
            Err(error) => (audit::Place::default(), error.to_string()),
        };
        api::Sink {
            name: spec.name.clone(),
            kind: spec.kind.as_str().to_owned(),
            state: "stopped".to_owned(),
            position: next.to_string(),
            lag: end.saturating_sub(next.seq),
            error,
            ..api::Sink::default()
        }
    });
    Ok(views.collect())
}
