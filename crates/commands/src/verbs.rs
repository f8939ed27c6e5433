//! Which file carries out which verb: one for each group.
//!
//! No match here has a default, so the compiler asks about a new verb. A verb that changes files tells a running gate to read them again.

use home::Home;
use terminal::{Exit, Screen, Trouble};

use crate::{Cli, Verb, args};

pub mod account;
pub mod audit;
pub mod call;
pub mod clients;
pub mod config;
pub mod connect;
pub mod console;
pub mod decide;
pub mod doctor;
pub mod executions;
pub mod import;
pub mod lineage;
pub mod man;
pub mod policy;
pub mod sandbox;
pub mod seal;
pub mod secret;
pub mod servers;
pub mod status;
pub mod task;
pub mod token;
pub mod upgrade;
pub mod volumes;

/// What only the program can do, because it is the gate.
pub trait Program {
    /// Runs the gate.
    fn up(
        &self,
        cli: &Cli,
        args: &args::Up,
        home: &Home,
        screen: &mut Screen<'_>,
    ) -> Result<Exit, Trouble>;

    /// A tour of a gate that it starts.
    fn demo(
        &self,
        args: &args::Demo,
        home: &Home,
        screen: &mut Screen<'_>,
    ) -> Result<Exit, Trouble>;

    /// Serves one of the demo servers.
    fn demo_server(&self, name: args::DemoName, screen: &mut Screen<'_>) -> Result<Exit, Trouble>;
}

pub fn run(
    cli: &Cli,
    home: &Home,
    screen: &mut Screen<'_>,
    program: &dyn Program,
) -> Result<Exit, Trouble> {
    let given_home = cli.home.as_deref();
    match &cli.verb {
        Verb::Up(args) => program.up(cli, args, home, screen),
        Verb::Connect(args) => connect::run(args, home),
        Verb::Servers(verb) => servers(verb, home, screen),
        Verb::Tools(args::Tools::List(args)) => status::tools(args, home, screen),
        Verb::Call(args) => call::run(args, home, screen),
        Verb::Status(args) => status::status(args, home, screen),
        Verb::Console(args) => console::run(args, home, screen),
        Verb::Doctor => doctor::run(home, screen),
        Verb::Upgrade(verb) => upgrade::run(verb, home, screen),
        Verb::Demo(args) => program.demo(args, home, screen),
        Verb::Volume(verb) => volumes::run(verb, home, screen),
        Verb::Approvals(verb) => decide::approvals(verb, home, screen),
        Verb::Sandbox(verb) => sandbox::run(verb, home, screen),
        Verb::Executions(verb) => executions::run(verb, home, screen),
        Verb::Session(verb) => decide::session(verb, home, screen),
        Verb::Task(verb) => task::run(verb, home, screen),
        Verb::Lineage(args) => lineage::run(args, home, screen),
        Verb::Policy(verb) => policy(verb, home, screen),
        Verb::Seal(verb) => seal::run(verb, home, screen),
        Verb::Token(verb) => {
            let exit = token::run(verb, given_home, home, screen)?;
            match verb {
                args::Token::List => Ok(exit),
                args::Token::New(_) | args::Token::Revoke(_) => reloaded(exit, home),
            }
        }
        Verb::Clients(verb) => clients::run(verb, given_home, home, screen),
        Verb::Import(args) => import::run(args, given_home, home, screen),
        Verb::ConnectAccount(args) => account::run(args, home, screen),
        Verb::Config(args::Config::Explain(args)) if args.file.is_none() => {
            status::explain_config(home, screen)
        }
        Verb::Config(verb) => config::run(verb, home, screen),
        Verb::Secret(verb) => {
            let exit = secret::run(verb, home, screen)?;
            match verb {
                args::Secret::List | args::Secret::Refresh => Ok(exit),
                args::Secret::Set(_) | args::Secret::Delete(_) => reloaded(exit, home),
            }
        }
        Verb::Audit(verb) => audit::run(verb, home, screen),
        Verb::Completions(args) => {
            screen.out.write_all(&args::completions(args.shell))?;
            Ok(Exit::Done)
        }
        Verb::Man(args) => man::run(args, screen),
        Verb::DemoServer(args) => program.demo_server(args.name, screen),
    }
}

fn servers(verb: &args::Servers, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    use args::Servers;
    match verb {
        Servers::List => status::list(home, screen),
        Servers::Show(server) => servers::show(&server.id, home, screen),
        Servers::Retry(server) => status::retry(&server.id, home, screen),
        Servers::Login(args) => servers::login::login(args, home, screen),
        Servers::Logout(server) => servers::login::logout(server, home, screen),
        Servers::Reinstall(args) => status::reinstall(args, home, screen),
        Servers::Review(args) => decide::review(args, home, screen),
        Servers::Approve(args) => decide::approve_definitions(args, home, screen),
        // A running gate makes these changes itself, so that it records who and why.
        Servers::Add(_) | Servers::Classify(_) | Servers::Block(_) | Servers::Unblock(_) => {
            match decide::change_server(verb, home, screen)? {
                Some(exit) => Ok(exit),
                None => edited(verb, home, screen),
            }
        }
        Servers::Remove(server) => {
            let exit = edited(verb, home, screen)?;
            if exit == Exit::Done {
                forget(&server.id, home)?;
            }
            Ok(exit)
        }
        Servers::Edit(_) | Servers::Set(_) | Servers::Enable(_) | Servers::Disable(_) => {
            edited(verb, home, screen)
        }
    }
}

/// What a server kept in the home of its own goes with it, and so do its login and its users' accounts.
pub(crate) fn forget(id: &str, home: &Home) -> Result<(), Trouble> {
    let Ok(id) = vocab::ServerId::parse(id) else {
        return Ok(());
    };
    servers::login::forget(&id, home)?;
    account::forget_all(&id, home)?;
    let place = home.jails().join(id.as_str());
    match std::fs::remove_dir_all(&place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Trouble::failed(
            format!("its home {} could not be removed: {error}", place.display()),
        )),
        _ => Ok(()),
    }
}

fn edited(verb: &args::Servers, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let exit = servers::edit::run(verb, home, screen)?;
    reloaded(exit, home)
}

fn policy(verb: &args::Policy, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    use args::Policy;
    match verb {
        Policy::Check(args) => policy::check(args.path.as_deref(), home, screen),
        Policy::Test(args) => policy::test(args, home, screen),
        Policy::Explain(args) => decide::explain(args, home, screen),
        Policy::Diff(args) => policy::diff(args, home, screen),
        Policy::Suggest(args) => policy::suggest(args, home, screen),
    }
}

/// Lets a running gate read what was changed.
pub(crate) fn reloaded(exit: Exit, home: &Home) -> Result<Exit, Trouble> {
    if exit == Exit::Done {
        status::reload_if_running(home)?;
    }
    Ok(exit)
}

#[cfg(test)]
mod tests;
