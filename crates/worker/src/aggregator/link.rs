//! The three ways to a server, behind one face.

use std::rc::Rc;

use tokio::task::JoinHandle;

use super::{
    connection::Connection, http::HttpLink, inbox::Inbox, incoming::Incoming, outgoing::Outgoing,
    post_stream::PostStream, sse_legacy::SseLink, stdio::StdioLink,
};
use crate::{failure::Failure, net::Payload};

#[derive(Debug)]
pub(crate) enum Link {
    /// Streamable HTTP, any revision.
    Http(Rc<HttpLink>),
    /// HTTP+SSE of 2024-11-05.
    Sse(Rc<SseLink>),
    /// The pipes of a child process of the gate.
    Stdio(Rc<StdioLink>),
}

impl Link {
    /// Sends a request and returns where its replies will come from.
    pub(crate) async fn open(
        &self,
        conn: &Rc<Connection>,
        outgoing: &Outgoing,
    ) -> Result<Replies, Failure> {
        match self {
            Self::Http(link) => link.open(conn, outgoing).await,
            Self::Sse(link) => link
                .post(conn, outgoing.body.clone())
                .await
                .map(|()| Replies::Inbox),
            Self::Stdio(link) => link.send(&outgoing.body).await.map(|()| Replies::Inbox),
        }
    }

    /// Sends a message that has no reply.
    pub(crate) async fn post(&self, conn: &Connection, body: Payload) -> Result<(), Failure> {
        match self {
            Self::Http(link) => link.post(body).await,
            Self::Sse(link) => link.post(conn, body).await,
            Self::Stdio(link) => link.send(&body).await,
        }
    }

    /// The gate renewed the login of this connection, or has none any more.
    pub(super) fn replace_bearer(
        &self,
        bearer: (Option<&str>, Option<u64>),
    ) -> Result<(), Failure> {
        match self {
            Self::Http(link) => link.replace_bearer(bearer),
            Self::Sse(link) => link.replace_bearer(bearer),
            Self::Stdio(_) => Err(Failure::invalid("this connection has no login")),
        }
    }

    /// Lets go of the server. What is returned says goodbye to it.
    pub(crate) fn close(&self) -> Option<JoinHandle<()>> {
        match self {
            Self::Http(link) => link.close(),
            Self::Sse(_) => None,
            Self::Stdio(link) => {
                link.close();
                None
            }
        }
    }

    /// Closes connections nobody uses any more.
    pub(crate) fn sweep(&self) {
        match self {
            Self::Http(link) => link.sweep(),
            Self::Sse(link) => link.sweep(),
            Self::Stdio(_) => {}
        }
    }
}

/// Where the messages of one request come from.
#[derive(Debug)]
pub(crate) enum Replies {
    /// A response that was one JSON document.
    Document(Option<Incoming>),
    /// An event stream of its own.
    Stream(Box<PostStream>),
    /// The stream shared by the whole connection.
    Inbox,
}

impl Replies {
    /// The next message; an error once there can be none.
    pub(crate) async fn next(
        &mut self,
        conn: &Rc<Connection>,
        inbox: &Inbox,
    ) -> Result<Incoming, Failure> {
        match self {
            Self::Document(message) => message.take().ok_or_else(|| {
                Failure::invalid("the server answered, but not to what it was asked")
            }),
            Self::Inbox => inbox.next().await,
            Self::Stream(stream) => {
                tokio::select! {
                    biased;
                    message = stream.next(conn) => message,
                    message = inbox.next() => message,
                }
            }
        }
    }

    /// The reply is here; the rest of the stream does not matter.
    pub(crate) fn finish(self) {
        if let Self::Stream(stream) = self {
            stream.finish();
        }
    }
}
