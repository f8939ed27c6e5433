//! Which part of the program carries out which verb.
//!
//! No match here has a default, so the compiler asks about a new verb. A verb that changes files tells a running gate to read them again.

use std::io;

use crate::{
    cli::{Cli, Exit, Verb, args},
    demo_server,
    home::Home,
    log,
    offline::{self, Screen, Trouble},
    online, up,
};

pub(crate) fn run(cli: &Cli, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let given_home = cli.home.as_deref();
    match &cli.verb {
        Verb::Up(args) => {
            log::to_stderr(cli.color);
            up::run(args, home, screen)
        }
        Verb::Connect(args) => online::connect::run(args, home),
        Verb::Servers(verb) => servers(verb, home, screen),
        Verb::Tools(args::Tools::List(args)) => online::tools(args, home, screen),
        Verb::Call(args) => online::call::run(args, home, screen),
        Verb::Status(args) => online::status(args, home, screen),
        Verb::Doctor => online::doctor::run(home, screen),
        Verb::Upgrade(verb) => offline::upgrade_verbs::run(verb, home, screen),
        Verb::Demo(args) => online::demo::run(args, home, screen),
        Verb::Approvals(verb) => online::decide::approvals(verb, home, screen),
        Verb::Sandbox(verb) => online::sandbox::run(verb, home, screen),
        Verb::Session(verb) => online::decide::session(verb, home, screen),
        Verb::Task(verb) => online::task::run(verb, home, screen),
        Verb::Lineage(args) => online::lineage::run(args, home, screen),
        Verb::Policy(verb) => policy(verb, home, screen),
        Verb::Seal(verb) => online::seal::run(verb, home, screen),
        Verb::Token(verb) => {
            let exit = offline::token_verbs::run(verb, given_home, home, screen)?;
            match verb {
                args::Token::List => Ok(exit),
                args::Token::New(_) | args::Token::Revoke(_) => reloaded(exit, home),
            }
        }
        Verb::Clients(verb) => offline::client_verbs::run(verb, given_home, home, screen),
        Verb::ConnectAccount(args) => offline::account_verbs::run(args, home, screen),
        Verb::Config(args::Config::Explain(args)) if args.file.is_none() => {
            online::explain_config(home, screen)
        }
        Verb::Config(verb) => offline::config_verbs::run(verb, home, screen),
        Verb::Secret(verb) => {
            let exit = offline::secret_verbs::run(verb, home, screen)?;
            match verb {
                args::Secret::List => Ok(exit),
                args::Secret::Set(_) | args::Secret::Delete(_) => reloaded(exit, home),
            }
        }
        Verb::Audit(verb) => online::audit_verbs::run(verb, home, screen),
        Verb::Completions(args) => {
            screen.out.write_all(&args::completions(args.shell))?;
            Ok(Exit::Done)
        }
        Verb::DemoServer(args) => {
            let demo = match args.name {
                args::DemoName::Notes => demo_server::Demo::Notes,
                args::DemoName::Web => demo_server::Demo::Web,
            };
            demo_server::serve(demo, io::stdin().lock(), &mut *screen.out)?;
            Ok(Exit::Done)
        }
    }
}

fn servers(verb: &args::Servers, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    use args::Servers;
    match verb {
        Servers::List => online::list(home, screen),
        Servers::Show(server) => online::servers::show(&server.id, home, screen),
        Servers::Retry(server) => online::retry(&server.id, home, screen),
        Servers::Review(args) => online::decide::review(args, home, screen),
        Servers::Approve(args) => online::decide::approve_definitions(args, home, screen),
        // A running gate makes these changes itself, so that it records who and why.
        Servers::Add(_) | Servers::Classify(_) | Servers::Block(_) | Servers::Unblock(_) => {
            match online::decide::change_server(verb, home, screen)? {
                Some(exit) => Ok(exit),
                None => edited(verb, home, screen),
            }
        }
        Servers::Remove(server) => {
            let exit = edited(verb, home, screen)?;
            if exit == Exit::Done {
                forget_home(&server.id, home)?;
            }
            Ok(exit)
        }
        Servers::Edit(_) | Servers::Set(_) | Servers::Enable(_) | Servers::Disable(_) => {
            edited(verb, home, screen)
        }
    }
}

/// What a server kept in the home of its own goes with it.
fn forget_home(id: &str, home: &Home) -> Result<(), Trouble> {
    let Ok(id) = vocab::ServerId::parse(id) else {
        return Ok(());
    };
    let place = home.jails().join(id.as_str());
    match std::fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Trouble::failed(format!(
            "its home {} could not be removed: {error}",
            place.display()
        ))),
        _ => Ok(()),
    }
}

fn edited(verb: &args::Servers, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let exit = offline::server_verbs::run(verb, home, screen)?;
    reloaded(exit, home)
}

fn policy(verb: &args::Policy, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    use args::Policy;
    match verb {
        Policy::Check(args) => offline::policy_verbs::check(args.path.as_deref(), home, screen),
        Policy::Test(args) => offline::policy_verbs::test(args, home, screen),
        Policy::Explain(args) => online::decide::explain(args, home, screen),
        Policy::Diff(args) => offline::policy_verbs::diff(args, home, screen),
        Policy::Suggest(args) => offline::policy_verbs::suggest(args, home, screen),
    }
}

/// Lets a running gate read what was changed.
fn reloaded(exit: Exit, home: &Home) -> Result<Exit, Trouble> {
    if exit == Exit::Done {
        online::reload_if_running(home)?;
    }
    Ok(exit)
}
