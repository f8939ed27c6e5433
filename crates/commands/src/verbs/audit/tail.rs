//! `portcullis audit tail`: the newest records or events, and with `-f` those that come.

use std::{thread, time::Duration};

use audit::{Event, Feed, Filter, Follow, Place, Record};
use home::{Home, answers, tokens};
use reports::CallerNames;
use terminal::{
    Exit, Screen, Trouble,
    style::{Paint, tame},
};

use crate::{args, verbs::audit::unreadable};

const POLL: Duration = Duration::from_millis(200);
/// Events read at once.
const BATCH: usize = 512;

pub(super) fn run(
    args: &args::AuditTail,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    if args.events || args.event.is_some() || args.family.is_some() {
        return events(args, home, screen);
    }
    let names = tokens::caller_names(home);
    let wanted = Filter {
        from: args.from.unwrap_or_default().seq,
        ..answers::filter(&args.conditions.query(), &names)?
    };
    let mut from = wanted.from;
    let mut printer = Printer::new(names);
    let mut show = |record: &Record, screen: &mut Screen<'_>| {
        from = record.seq + 1;
        printer.print(record, screen)
    };
    if args.from.is_some() {
        for record in
            audit::read(&home.ledger, wanted.clone()).map_err(|error| unreadable(home, &error))?
        {
            show(&record.map_err(|error| unreadable(home, &error))?, screen)?;
        }
    } else {
        for record in audit::tail(&home.ledger, &wanted, args.lines)
            .map_err(|error| unreadable(home, &error))?
        {
            show(&record, screen)?;
        }
    }
    if !args.follow {
        return Ok(Exit::Done);
    }
    let mut follow = Follow::new(&home.ledger, Filter { from, ..wanted });
    loop {
        for record in follow.poll().map_err(|error| unreadable(home, &error))? {
            printer.print(&record, screen)?;
        }
        thread::sleep(POLL);
    }
}

fn events(args: &args::AuditTail, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let names = tokens::caller_names(home);
    let filter = Filter {
        event: args.event.clone().unwrap_or_default(),
        family: args.family.clone().unwrap_or_default(),
        ..answers::filter(&args.conditions.query(), &names)?
    };
    let mut printer = Printer::new(names);
    let from = match args.from {
        Some(from) => from,
        None => {
            let newest = audit::newest_events(&home.ledger, &filter, args.lines);
            let (newest, end) = newest.map_err(|error| unreadable(home, &error))?;
            for event in &newest {
                printer.print_event(event, screen)?;
            }
            end
        }
    };
    if args.from.is_none() && !args.follow {
        return Ok(Exit::Done);
    }
    let mut feed = Feed::new(&home.ledger, from);
    loop {
        let begin = feed.next();
        let batch = feed
            .read(u64::MAX, BATCH, &filter)
            .map_err(|error| unreadable(home, &error))?;
        if batch.missed > 0 {
            print_missed(begin, batch.missed, screen)?;
        }
        for event in &batch.events {
            printer.print_event(event, screen)?;
        }
        match (batch.more, args.follow) {
            (true, _) => {}
            (false, true) => thread::sleep(POLL),
            (false, false) => return Ok(Exit::Done),
        }
    }
}

/// Records that are not there any more are said to be so, in the place where they would stand.
fn print_missed(from: Place, records: u64, screen: &mut Screen<'_>) -> Result<(), Trouble> {
    match screen.json {
        true => writeln!(
            screen.out,
            "{}",
            serde_json::json!({ "missed": records, "from": from.to_string() })
        )?,
        false => writeln!(
            screen.out,
            "{records} records from {from} on are not in the ledger any more, or cannot be read"
        )?,
    }
    Ok(())
}

/// Prints lines under titles, with names of callers; with `--json`, documents as they are.
pub(super) struct Printer {
    names: CallerNames,
    has_head: bool,
}

impl Printer {
    pub(super) fn new(names: CallerNames) -> Self {
        Self {
            names,
            has_head: false,
        }
    }

    fn head(&mut self, head: fn(bool) -> String, screen: &mut Screen<'_>) -> Result<(), Trouble> {
        if !screen.json && !std::mem::replace(&mut self.has_head, true) {
            writeln!(screen.out, "{}", head(screen.style.color))?;
        }
        Ok(())
    }

    pub(super) fn print(
        &mut self,
        record: &Record,
        screen: &mut Screen<'_>,
    ) -> Result<(), Trouble> {
        self.head(audit::render_head, screen)?;
        let line = if screen.json {
            serde_json::to_string(record).map_err(Trouble::failed)?
        } else {
            let line = audit::render_line(&self.names.in_record(record), screen.style.color);
            match record.call.as_str() {
                "" => line,
                // What `audit show`, `lineage` and `policy explain` are asked with.
                call => format!(
                    "{}  {}",
                    line.trim_end(),
                    screen.style.paint(&tame(call), Paint::Dim)
                ),
            }
        };
        writeln!(screen.out, "{}", line.trim_end())?;
        Ok(screen.out.flush()?)
    }

    fn print_event(&mut self, event: &Event, screen: &mut Screen<'_>) -> Result<(), Trouble> {
        self.head(audit::render_event_head, screen)?;
        let line = match screen.json {
            true => event.line(),
            false => audit::render_event(&self.names.in_event(event), screen.style.color),
        };
        writeln!(screen.out, "{line}")?;
        Ok(screen.out.flush()?)
    }
}
