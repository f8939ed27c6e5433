//! The floor: a forwarding proxy that parses nothing and keeps its connections. No gate can be cheaper than this on the same stack.

use std::{cell::RefCell, rc::Rc};

use anyhow::Result;
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http1::{self as client, SendRequest},
    header::{HOST, HeaderValue},
    server::conn::http1 as server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    task::spawn_local,
};

/// Connections to the upstream that nobody is using now.
#[derive(Debug)]
struct Pool {
    authority: String,
    host: HeaderValue,
    idle: RefCell<Vec<SendRequest<Incoming>>>,
}

/// Forwards every request to `authority` until the process ends.
pub async fn run(listener: TcpListener, authority: &str) -> Result<()> {
    let pool = Rc::new(Pool {
        authority: authority.to_owned(),
        host: HeaderValue::from_str(authority)?,
        idle: RefCell::default(),
    });
    loop {
        let (stream, _peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let pool = Rc::clone(&pool);
        spawn_local(async move {
            let forward = service_fn(move |request| forward(Rc::clone(&pool), request));
            // A client that hangs up in the middle is the client's business.
            let _ended = server::Builder::new()
                .serve_connection(TokioIo::new(stream), forward)
                .await;
        });
    }
}

async fn forward(pool: Rc<Pool>, mut request: Request<Incoming>) -> Result<Response<Incoming>> {
    request.headers_mut().insert(HOST, pool.host.clone());
    let mut upstream = pool.take().await?;
    let response = upstream.send_request(request).await?;
    // The connection reports itself busy until the response's body has been read, so it may go back at once.
    pool.idle.borrow_mut().push(upstream);
    Ok(response)
}

impl Pool {
    async fn take(&self) -> Result<SendRequest<Incoming>> {
        let ready = {
            let mut idle = self.idle.borrow_mut();
            idle.retain(|connection| !connection.is_closed());
            idle.iter()
                .rposition(SendRequest::is_ready)
                .map(|at| idle.swap_remove(at))
        };
        if let Some(connection) = ready {
            return Ok(connection);
        }
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
        spawn_local(async move {
            // A broken connection shows at its next use.
            let _ended = connection.await;
        });
        Ok(sender)
    }
}
