//! What stands before HTTP: who may connect to a door, over what, as whom, and how often.
//!
//! A connection passes [`Entrance::admit`], in this order: its peer may connect at all, it says for whom it speaks if it is a trusted proxy,
//! and it is taken into TLS. What came of it is an [`Arrival`], which goes along with every request. [`Limiter`] counts requests by
//! address. Nothing here knows HTTP's words, callers or calls; nothing here decides what a caller may do.

mod arrival;
mod certificate;
mod entrance;
mod forwarded;
mod limiter;
mod network;
mod proxy;
mod spec;
mod stream;
mod tls;

pub use arrival::Arrival;
pub use certificate::Known;
pub use entrance::{Closed, Entrance};
pub use limiter::{Admission, Limiter, Over, Posture, StoreSpec, Terms};
pub use network::Network;
pub use spec::{
    CertificateCaller, CertificateRole, ClientCertificates, ClientSpec, DoorSpec, Forwarding, Name,
    Pair, Preamble, ProxySpec, Revocation, TlsSpec,
};
pub use stream::Stream;
pub use tls::{Look, Tls};
