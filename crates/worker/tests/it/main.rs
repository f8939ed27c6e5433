//! The worker from the outside: a real process in its real jail, driven over its pipes, against scripted servers.

#[cfg(test)]
mod clerk;
#[cfg(test)]
mod courier;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod http;
#[cfg(test)]
mod oversized;
#[cfg(test)]
mod process;
#[cfg(test)]
mod relist;
#[cfg(test)]
mod seed;
#[cfg(test)]
mod stdio;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod users;
