//! The fixture on streamable HTTP: `/mcp` for the protocol, `/effects` for reading and resetting the counters.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::world::World;
use super::{Effects, Era, Everything};

type Mcp = StreamableHttpService<Everything, LocalSessionManager>;
type Reply = Response<BoxBody<Bytes, Infallible>>;

/// What a server of the older era has heard of.
const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// How long a client whose stream was cut should wait; short, so that tests are.
const RECONNECT_AFTER: Duration = Duration::from_millis(300);

/// A fixture served from inside a test process; it stops when dropped.
#[derive(Debug)]
pub struct HttpFixture {
    address: SocketAddr,
    world: Arc<World>,
    serving: AbortHandle,
}

impl HttpFixture {
    /// Starts a fixture on a loopback port the system picks.
    ///
    /// # Errors
    /// When no loopback port can be bound.
    pub async fn start(era: Era) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let world = Arc::new(World::new(era));
        let serving = tokio::spawn(serve_http(listener, world.clone())).abort_handle();
        Ok(Self {
            address,
            world,
            serving,
        })
    }

    /// Where its MCP endpoint is.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The counters as they stand.
    pub fn effects(&self) -> Effects {
        self.world.effects()
    }
}

impl Drop for HttpFixture {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Serves until the listener fails or the future is dropped.
///
/// # Errors
/// When the listener can accept no more connections.
pub async fn serve_http(listener: TcpListener, world: Arc<World>) -> std::io::Result<()> {
    let mcp = mcp_service(&world);
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _peer) = listener.accept().await?;
        // Without this the last chunk of a streamed answer waits for a delayed acknowledgement.
        stream.set_nodelay(true)?;
        connections.spawn(serve_connection(stream, mcp.clone(), world.clone()));
        while connections.try_join_next().is_some() {}
    }
}

fn mcp_service(world: &Arc<World>) -> Mcp {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(world.era != Era::Modern)
        .with_sse_retry(Some(RECONNECT_AFTER))
        .with_max_request_body_bytes(64 << 20)
        .with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"]);
    let world = world.clone();
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.sse_retry = Some(RECONNECT_AFTER);
    StreamableHttpService::new(
        move || Ok(Everything::new(world.clone())),
        Arc::new(sessions),
        config,
    )
}

async fn serve_connection(stream: TcpStream, mcp: Mcp, world: Arc<World>) {
    let service = service_fn(|request| {
        let (mcp, world) = (mcp.clone(), world.clone());
        async move { Ok::<_, Infallible>(answer(request, &mcp, &world).await) }
    });
    // A client that goes away mid-request is its own business.
    let _ended = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(mut request: Request<Incoming>, mcp: &Mcp, world: &World) -> Reply {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/effects") => effects(world),
        (&Method::DELETE, "/effects") => {
            world.reset_effects();
            effects(world)
        }
        (_, "/mcp") if world.era == Era::Legacy && names_unknown_version(&request) => {
            unknown_version()
        }
        (_, "/mcp") => {
            let (cut, watched) = StreamCut::new();
            request.extensions_mut().insert(cut);
            let resumed = resumed_session(&request);
            let reply = mcp
                .handle(request)
                .await
                .map(|body| CuttableBody::new(body, watched).boxed());
            if let Some(session) = resumed {
                // Nobody waiting for it is the usual case.
                let _heard_by = world.resumptions.send(session);
            }
            reply
        }
        _ => plain(
            StatusCode::NOT_FOUND,
            "text/plain",
            "only /mcp and /effects are here".to_owned(),
        ),
    }
}

/// Whether the request names a version that a server of the older era does not know.
fn names_unknown_version(request: &Request<Incoming>) -> bool {
    request
        .headers()
        .get("mcp-protocol-version")
        .is_some_and(|version| !LEGACY_VERSIONS.iter().any(|known| version == known))
}

/// The session that asks for the rest of one of its streams, if this is such a request.
fn resumed_session(request: &Request<Incoming>) -> Option<HeaderValue> {
    let headers = request.headers();
    if request.method() == Method::GET && headers.contains_key("last-event-id") {
        return headers.get("mcp-session-id").cloned();
    }
    None
}

/// What servers of the older SDKs say to a version they have never heard of.
fn unknown_version() -> Reply {
    let message = format!(
        "Bad Request: Unsupported protocol version (supported versions: {})",
        LEGACY_VERSIONS.join(", ")
    );
    let body = serde_json::json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": message}, "id": null});
    plain(
        StatusCode::BAD_REQUEST,
        "application/json",
        body.to_string(),
    )
}

fn effects(world: &World) -> Reply {
    plain(
        StatusCode::OK,
        "application/json",
        serde_json::json!(world.effects()).to_string(),
    )
}

fn plain(status: StatusCode, kind: &'static str, text: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(text)).boxed());
    *reply.status_mut() = status;
    reply
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// Lets a tool end the HTTP response it is being answered on, as a server does that wants to be polled.
#[derive(Clone, Debug)]
pub(super) struct StreamCut(watch::Sender<bool>);

impl StreamCut {
    fn new() -> (Self, watch::Receiver<bool>) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), receiver)
    }

    pub(super) fn now(&self) {
        self.0.send_replace(true);
    }
}

/// A response body that ends early when its stream is cut.
struct CuttableBody {
    inner: BoxBody<Bytes, Infallible>,
    cut: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
    sent_any: bool,
}

impl CuttableBody {
    fn new(inner: BoxBody<Bytes, Infallible>, mut cut: watch::Receiver<bool>) -> Self {
        let wait = async move {
            // A dropped sender means nobody can cut any more.
            if cut.wait_for(|cut| *cut).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        Self {
            inner,
            cut: Some(Box::pin(wait)),
            sent_any: false,
        }
    }
}

impl Body for CuttableBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        // The first event carries the id a client resumes from, so a cut waits for it.
        if this.sent_any
            && let Some(cut) = this.cut.as_mut()
            && cut.as_mut().poll(cx).is_ready()
        {
            this.cut = None;
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        this.sent_any = true;
        Poll::Ready(frame)
    }
}
