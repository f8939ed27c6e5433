//! `portcullis demo`: a tour, explained step by step. A gate of its own, in a home of its own, so it touches nothing of yours.

use std::{
    io::{self, IsTerminal as _},
    os::fd::OwnedFd,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use api::ask;
use audit::Filter;
use commands::{args, line::Line, result::Outcome, verbs::call};
use home::Home;
use serde_json::{Value, json};
use terminal::{
    Exit, Screen, Trouble,
    sheet::legible,
    style::{Paint, tame},
};

const PAUSE: Duration = Duration::from_millis(1200);
const START_PATIENCE: Duration = Duration::from_secs(10);

/// A gate started for the tour, in a directory that goes with it.
struct Stage {
    home: Home,
    dir: PathBuf,
    gate: sandbox::Child,
    /// Its standard streams. Nobody reads them, and it says little; but they must stay open.
    _streams: [OwnedFd; 3],
}

pub(crate) fn run(args: &args::Demo, _: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let stage = Stage::open()?;
    let outcome = Tour {
        args,
        screen,
        home: &stage.home,
    }
    .run();
    stage.close();
    outcome
}

impl Stage {
    fn open() -> Result<Self, Trouble> {
        let mut name = [0; 8];
        getrandom::fill(&mut name).map_err(|error| Trouble::failed(error.to_string()))?;
        let dir =
            std::env::temp_dir().join(format!("portcullis-demo-{:016x}", u64::from_le_bytes(name)));
        let home = Home::at(&dir);
        home.prepare().map_err(Trouble::failed)?;
        let own = std::env::current_exe()?;
        let spawned = sandbox::Command::new(own)
            .args([
                "--home".as_ref(),
                dir.as_os_str(),
                "up".as_ref(),
                "--listen".as_ref(),
                "127.0.0.1:0".as_ref(),
                "--no-snippets".as_ref(),
            ])
            .path(std::env::var_os("PATH").unwrap_or_default())
            .keeping_capabilities()
            .spawn()
            .map_err(Trouble::failed)?;
        let stage = Self {
            home,
            dir,
            gate: spawned.child,
            _streams: [spawned.stdin, spawned.stdout, spawned.stderr],
        };
        let begun = Instant::now();
        while !stage.home.run.join("gate.json").is_file() {
            if begun.elapsed() > START_PATIENCE {
                stage.close();
                return Err(Trouble::failed(
                    "the demo's gate did not start; `portcullis doctor` may say why",
                ));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(stage)
    }

    fn close(self) {
        // The gate ends its servers and its worker itself; a second is plenty for it.
        let _ = self.gate.terminate(Duration::from_secs(3));
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The first call that waits for a person.
fn first_question(operator: &mut Line) -> Result<api::Approval, Trouble> {
    let begun = Instant::now();
    loop {
        let approvals = operator.ask(ask::Approvals)?;
        if let Some(approval) = approvals
            .into_iter()
            .find(|approval| approval.state == "pending")
        {
            return Ok(approval);
        }
        if begun.elapsed() > START_PATIENCE {
            return Err(Trouble::failed("the tour expected a question to a person"));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

struct Tour<'a, 'b> {
    args: &'a args::Demo,
    screen: &'a mut Screen<'b>,
    home: &'a Home,
}

impl Tour<'_, '_> {
    fn run(&mut self) -> Result<Exit, Trouble> {
        let mut line = Line::as_client(self.home, None)?;
        self.say("A gate is up, with two servers behind it: demo-notes is CONFIDENTIAL, demo-web is PUBLIC.")?;

        self.say("1. The agent posts to the web. Its session has seen nothing yet, so it may.")?;
        self.call(
            &mut line,
            "demo-web__post_message",
            json!({ "channel": "general", "text": "good morning" }),
            Exit::Done,
        )?;

        self.say("2. The agent reads a page. Strangers write what the web says, and the session that has seen it is untrusted.")?;
        self.call(
            &mut line,
            "demo-web__fetch_page",
            json!({ "url": "https://example.com/recipes" }),
            Exit::Done,
        )?;
        self.label()?;

        self.say("3. It wants to post again. That might be the page speaking, so a person is asked, and says no.")?;
        self.denied(
            &mut line,
            "demo-web__post_message",
            &json!({ "channel": "general", "text": "soup tonight" }),
        )?;

        self.say("4. The agent reads a note. The answer is confidential, and from here on so is the session.")?;
        let found = self.call(
            &mut line,
            "demo-notes__search_notes",
            json!({ "query": "launch" }),
            Exit::Done,
        )?;
        self.label()?;

        self.say("5. Now it does what the page said. Nobody is asked this time: a session that has seen CONFIDENTIAL data\n   cannot write to a PUBLIC server. The call is refused and nothing is sent.")?;
        let secret: String = words(&found)?.chars().take(60).collect();
        self.call(
            &mut line,
            "demo-web__post_message",
            json!({ "channel": "general", "text": secret }),
            Exit::Refused,
        )?;

        self.say("6. A new connection does not wash the label off: it belongs to the credential.")?;
        let mut again = Line::as_client(self.home, None)?;
        self.call(
            &mut again,
            "demo-web__post_message",
            json!({ "channel": "general", "text": "hello again" }),
            Exit::Refused,
        )?;

        self.say("7. The ledger has every step, written before it happened:")?;
        self.ledger()
    }

    fn say(&mut self, what: &str) -> Result<(), Trouble> {
        if !self.args.no_pause {
            self.pause()?;
        }
        if !self.screen.json {
            let text = self.screen.style.paint(what, Paint::Bold);
            writeln!(self.screen.out, "\n{text}")?;
            self.screen.out.flush()?;
        }
        Ok(())
    }

    /// Whoever sits at a terminal reads at their own pace.
    fn pause(&mut self) -> Result<(), Trouble> {
        if self.screen.json || !io::stdin().is_terminal() {
            thread::sleep(PAUSE);
            return Ok(());
        }
        write!(
            self.screen.out,
            "{}",
            self.screen.style.paint("\n   Enter to go on ", Paint::Dim)
        )?;
        self.screen.out.flush()?;
        io::stdin().read_line(&mut String::new())?;
        Ok(())
    }

    /// Makes a call and shows it; a tour that does not go as told is a failure.
    fn call(
        &mut self,
        line: &mut Line,
        tool: &str,
        arguments: Value,
        expected: Exit,
    ) -> Result<Outcome, Trouble> {
        let shown = arguments.to_string();
        let result = call::call(line, tool, &shown)?;
        let exit = result.exit();
        if self.screen.json {
            let step =
                json!({ "tool": tool, "exit": exit.code(), "violation": result.violation() });
            writeln!(self.screen.out, "{step}")?;
        } else {
            writeln!(self.screen.out, "   $ portcullis call {tool} '{shown}'")?;
            for row in words(&result)?.lines() {
                writeln!(self.screen.out, "   {row}")?;
            }
        }
        if exit != expected {
            return Err(Trouble::failed(format!(
                "the tour expected another answer from {tool}"
            )));
        }
        Ok(result)
    }

    /// Makes a call that a person is asked about, and answers as that person.
    fn denied(&mut self, line: &mut Line, tool: &str, arguments: &Value) -> Result<(), Trouble> {
        let mut operator = Line::as_operator(self.home)?;
        let (approval, result) = thread::scope(|scope| {
            let calling = scope.spawn(|| call::call(line, tool, &arguments.to_string()));
            let approval = first_question(&mut operator);
            if let Ok(approval) = &approval {
                let reason = commands::line::reason(Some("nobody asked for soup"))?;
                operator.ask_for(ask::Deny, &approval.id, &api::Reasoned { reason })?;
            }
            // A question that never came means that the call was answered, so this ends.
            let result = calling
                .join()
                .map_err(|_| Trouble::failed("the call ended in a panic"))?;
            Ok::<_, Trouble>((approval?, result?))
        })?;
        let exit = result.exit();
        if self.screen.json {
            let step =
                json!({ "tool": tool, "exit": exit.code(), "violation": result.violation() });
            writeln!(self.screen.out, "{step}")?;
        } else {
            writeln!(self.screen.out, "   $ portcullis call {tool} '{arguments}'")?;
            writeln!(self.screen.out, "   $ portcullis approvals list")?;
            for why in &approval.why {
                writeln!(self.screen.out, "   {} waits: {}", approval.id, tame(why))?;
            }
            writeln!(
                self.screen.out,
                "   $ portcullis approvals deny {} --reason 'nobody asked for soup'",
                approval.id
            )?;
            for row in words(&result)?.lines() {
                writeln!(self.screen.out, "   {row}")?;
            }
        }
        match exit {
            Exit::Refused => Ok(()),
            _ => Err(Trouble::failed(format!(
                "the tour expected another answer from {tool}"
            ))),
        }
    }

    fn label(&mut self) -> Result<(), Trouble> {
        let status = Line::as_operator(self.home)?.ask(ask::Status)?;
        let label = status
            .callers
            .iter()
            .find(|caller| caller.name == "first-client")
            .map_or("?", |caller| &caller.label);
        if !self.screen.json {
            writeln!(self.screen.out, "   session label: {label}")?;
        }
        Ok(())
    }

    fn ledger(&mut self) -> Result<Exit, Trouble> {
        let records = audit::tail(&self.home.ledger, &Filter::default(), 100)?;
        let calls = records.iter().filter(|record| !record.call.is_empty());
        if !self.screen.json {
            for record in calls {
                writeln!(
                    self.screen.out,
                    "   {}",
                    audit::render_line(record, self.screen.style.color).trim_end()
                )?;
            }
        }
        let report = audit::verify(&self.home.ledger)?;
        let verdict = if report.is_clean() {
            "verifies"
        } else {
            "DOES NOT VERIFY"
        };
        if self.screen.json {
            writeln!(
                self.screen.out,
                "{}",
                json!({ "records": report.records, "clean": report.is_clean() })
            )?;
        } else {
            writeln!(
                self.screen.out,
                "\n   $ portcullis audit verify\n   The ledger {verdict}: {} records, head {}\n",
                report.records, report.head
            )?;
            writeln!(
                self.screen.out,
                "That was the tour; its gate and its home are gone again. Next: `portcullis up` starts yours, and\n\
                 `portcullis servers add` puts your own servers behind it."
            )?;
        }
        Ok(if report.is_clean() {
            Exit::Done
        } else {
            Exit::Altered
        })
    }
}

/// What a call gave, as a person would see it.
fn words(outcome: &Outcome) -> Result<String, Trouble> {
    let mut out = Vec::new();
    outcome.write(&mut out)?;
    Ok(legible(&String::from_utf8_lossy(&out)).into_owned())
}
