//! Where misbehaviour is written to: the reply of one HTTP request, or standard output.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, Stdout};
use tokio::net::TcpStream;

/// One direction of one connection.
#[derive(Debug)]
pub(super) enum Wire {
    Http { stream: TcpStream, streaming: bool },
    Stdio(Stdout),
}

impl Wire {
    pub(super) fn is_http(&self) -> bool {
        matches!(self, Self::Http { .. })
    }

    /// One whole message that is the whole reply.
    pub(super) async fn answer(&mut self, message: &[u8]) -> io::Result<()> {
        if let Self::Http {
            streaming: false, ..
        } = self
        {
            return self
                .respond(
                    "200 OK",
                    "application/json",
                    "mcp-session-id: hostile\r\n",
                    message,
                )
                .await;
        }
        self.message(message).await
    }

    /// One whole message of several: an event, or a line.
    pub(super) async fn message(&mut self, message: &[u8]) -> io::Result<()> {
        self.open_stream().await?;
        let (before, after): (&[u8], &[u8]) = if self.is_http() {
            (b"data: ", b"\n\n")
        } else {
            (b"", b"\n")
        };
        let framed = [before, message, after].concat();
        self.raw(&framed).await
    }

    /// Starts an event stream that ends when the connection does. Nothing to do on stdio.
    pub(super) async fn open_stream(&mut self) -> io::Result<()> {
        let Self::Http { stream, streaming } = self else {
            return Ok(());
        };
        if !*streaming {
            *streaming = true;
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).await?;
        }
        Ok(())
    }

    /// Bytes as they are.
    pub(super) async fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Http { stream, .. } => stream.write_all(bytes).await,
            Self::Stdio(stdout) => {
                stdout.write_all(bytes).await?;
                stdout.flush().await
            }
        }
    }

    /// A complete HTTP reply with a length, after which the connection can be used again.
    pub(super) async fn respond(
        &mut self,
        status: &str,
        kind: &str,
        more: &str,
        body: &[u8],
    ) -> io::Result<()> {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}content-length: {length}\r\n\r\n"
        );
        self.raw(&[head.as_bytes(), body].concat()).await
    }

    /// Silence until the other side gives up.
    pub(super) async fn hang(&mut self) {
        match self {
            Self::Http { stream, .. } => {
                let mut ignored = [0; 1024];
                while matches!(stream.read(&mut ignored).await, Ok(count) if count > 0) {}
            }
            Self::Stdio(_) => tokio::time::sleep(Duration::from_secs(3600)).await,
        }
    }
}
