//! The one integration binary: the shipped programs, started as a user starts them, judged from outside.
//!
//! Nothing here reaches into the gate's code. Upstreams are the everything fixture, the hostile upstream and other
//! people's servers; clients are a plain JSON client and other people's SDKs. `testkit` has a map of the fixtures. Each line
//! below says what its module shows; modules that show nothing themselves are marked as fixtures.

#[cfg(test)]
mod adding; // A server is added with open eyes: nothing is approved unseen.
#[cfg(test)]
#[cfg(feature = "campaign")]
mod agents; // Every agent that npm offers, with a model on loopback (a campaign).
#[cfg(test)]
mod approvals; // A person agrees to one exact call, once, in time.
#[cfg(test)]
mod bundle_watch; // Files of policies are watched like the configuration.
#[cfg(test)]
mod canaries; // No secret is in any byte that the gate writes.
#[cfg(test)]
mod clients; // Other people's clients, with nothing but a URL and a token.
#[cfg(test)]
mod cmd_run; // Commands run in a jail, and their results carry what their caller had seen.
#[cfg(test)]
mod commands; // What the command line prints, changes, and ends with.
#[cfg(test)]
mod configuration; // A bad file changes nothing and says what to write instead.
#[cfg(test)]
mod confinement; // The worker's jail from outside, a server's environment, processes left behind.
#[cfg(test)]
mod connectors; // Servers that host programs add and remove over HTTP.
#[cfg(test)]
mod console; // People at the console: who gets in, what pages tell, what it takes to act.
#[cfg(test)]
#[cfg(feature = "campaign")]
mod containers; // Servers in containers of their own, with a runtime that really starts them (a campaign).
#[cfg(test)]
mod contexts; // Security contexts and manifests, from the file to the server.
#[cfg(test)]
mod corpus; // The configuration files that the fuzzer starts from.
#[cfg(test)]
mod crash; // The gate is killed under load, and the ledger knows what is unknown.
#[cfg(test)]
mod dispatch; // Executors ask for commands; each call ends once, by its own answer.
#[cfg(test)]
mod door; // HTTP requests that are not quite requests.
#[cfg(test)]
mod endings; // How conversations, credentials and the gate itself end.
#[cfg(test)]
mod eras; // Every MCP feature between every pair of revisions.
#[cfg(test)]
mod events; // Events from the files and as a stream.
#[cfg(test)]
mod executors; // Both executors against a real gate, killed at odd moments.
#[cfg(test)]
mod failures; // The agent learns that it failed, the operator learns why.
#[cfg(test)]
mod fair; // Nobody takes time, places, limits or disk from others.
#[cfg(test)]
mod foreign; // Fixture: other people's software at pinned versions.
#[cfg(test)]
mod full_disk; // A full disk stops effects, and space brings them back.
#[cfg(test)]
mod holding; // What the gate keeps for later has an owner, a bound and an end.
#[cfg(test)]
mod hooks; // A client's hook brings a person's words, and no window washes off what another has read.
#[cfg(test)]
mod hostile; // One server is an enemy, and the others do not notice.
#[cfg(test)]
mod imports; // Servers of other programs: taken over whole, without a secret, and back to the byte.
#[cfg(test)]
mod inspect; // Results have the declared shape and no secrets.
#[cfg(test)]
mod jails; // Stdio servers in their jails: what a poisoned one reaches, what an operator is told.
#[cfg(test)]
mod journey; // One journey with every client that npm and PyPI offer.
#[cfg(test)]
mod layers; // What a company signed holds, says so, and cannot be put off.
#[cfg(test)]
mod lazy; // The gate is ready before its servers.
#[cfg(test)]
mod limits; // Time, size and number have a definite end.
#[cfg(test)]
mod live_settings; // Settings of the door follow the file at once.
#[cfg(test)]
mod logins; // Logins to servers: made by a person, kept alive by the gate, ended by either side.
#[cfg(test)]
mod network_doors; // Doors that others can reach, and how often one address may ask.
#[cfg(test)]
mod oauth; // Access tokens of an identity provider.
#[cfg(test)]
mod operator; // The verbs that change what callers may do.
#[cfg(test)]
mod operator_interface; // Its OpenAPI document, a generated client, what each role may do.
#[cfg(test)]
mod outages; // Sinks that were down lose nothing.
#[cfg(test)]
mod output; // What is printed of others' data.
#[cfg(test)]
mod own_tools; // The gate's own tools are called, labelled and on record.
#[cfg(test)]
mod permissions; // Users, departments, agents, rates, and one's own account.
#[cfg(test)]
mod policy_verbs; // Policies are checked, tried, explained, compared, suggested.
#[cfg(test)]
mod preflight; // The checks before a call leaves, in their order.
#[cfg(test)]
mod pty; // Fixture: the program on a terminal.
#[cfg(test)]
mod published; // Servers as their makers publish them, in every profile of jails.
#[cfg(test)]
mod reading; // Questions, stories, reports, exports and retention of the ledger.
#[cfg(test)]
mod reasons; // The reason of a refusal reaches whoever checks schemas.
#[cfg(test)]
mod reconcile; // Clients, gate and server tell the same over random kills.
#[cfg(test)]
mod refusals; // Refused means that nothing happened, and that it is on record.
#[cfg(test)]
mod reload; // A new configuration takes over, and unchanged servers do not notice.
#[cfg(test)]
mod rugpull; // Definitions that change after somebody approved them.
#[cfg(test)]
mod seal; // Signed calls through the shipped programs.
#[cfg(test)]
mod seals; // Sealed texts are passed on unread, with their labels; opened, they taint.
#[cfg(test)]
mod sent; // What is sent is what was judged.
#[cfg(test)]
mod servers; // Other people's servers, listed and called.
#[cfg(test)]
mod sharing; // The gate beside other programs in its home and on its machine.
#[cfg(test)]
mod stores; // Secrets from a store elsewhere.
#[cfg(test)]
mod support; // Fixture: a configuration, a gate, connected servers.
#[cfg(test)]
mod switched_off; // What a person blocked is not started and is ended if it runs.
#[cfg(test)]
mod taint; // What a session has seen decides where it may send.
#[cfg(test)]
mod tasks; // A person's words begin a conversation, and what they name is not asked about.
#[cfg(test)]
mod telemetry; // What whoever watches the gate reads.
#[cfg(test)]
mod terminal; // The program at a terminal, in a pipe and in a script.
#[cfg(test)]
mod unknown_ends; // Calls that were refused, or whose end nobody saw.
#[cfg(test)]
mod verifying; // `audit verify` as an auditor runs it.
#[cfg(test)]
mod volumes; // Files of agents: what is answered, where nobody gets, and labels that stick.
#[cfg(test)]
mod web; // What the tools for the web answer, where they do not reach, and what they leave behind.
#[cfg(test)]
mod words; // Words of a server that are no result: lists, log messages, refusals.
#[cfg(test)]
mod worker_death; // The worker dies or hangs, many times over.
