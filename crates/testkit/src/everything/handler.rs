//! The server handler: era rules, lists, and the ear for list changes.
#![expect(
    deprecated,
    reason = "logging and resources/subscribe are deprecated, and gates must still carry them"
)]

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, DiscoverResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
    GetTaskResult, Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{
    NotificationContext, Peer, RequestContext, SubscriptionContext, SubscriptionSink,
};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use super::tools::{self, Call};
use super::world::{Change, World, lock};
use super::{Era, ask, prompts, resources};

/// One session's (or one stateless request's) view of the [`World`].
#[derive(Debug)]
pub struct Everything {
    world: Arc<World>,
    /// What this session asked to hear by `logging/setLevel`.
    log_level: Mutex<Option<LoggingLevel>>,
    watched: Arc<Mutex<BTreeSet<String>>>,
    /// Opened before a listener is told it is heard, so that nothing announced in between is lost.
    ear: Mutex<Option<broadcast::Receiver<Change>>>,
    forwarder: Mutex<Option<Forwarder>>,
}

/// The task that passes changes on to a legacy session; it ends with the session.
#[derive(Debug)]
struct Forwarder(AbortHandle);

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Everything {
    /// A handler over a shared world.
    pub fn new(world: Arc<World>) -> Self {
        Self {
            world,
            log_level: Mutex::default(),
            watched: Arc::default(),
            ear: Mutex::default(),
            forwarder: Mutex::default(),
        }
    }

    fn listen_from_now(&self) {
        *lock(&self.ear) = Some(self.world.changes.subscribe());
    }

    fn take_ear(&self) -> broadcast::Receiver<Change> {
        lock(&self.ear)
            .take()
            .unwrap_or_else(|| self.world.changes.subscribe())
    }

    /// The level below which this request's client hears no logs; a modern client says so per request.
    fn log_level(&self, context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        if ask::is_modern(context) {
            context.meta.log_level()
        } else {
            *lock(&self.log_level)
        }
    }

    /// Refuses modern framing where the fixture plays a server that has never heard of it.
    fn admit(&self, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if self.world.era == Era::Legacy && ask::is_modern(context) {
            return Err(ErrorData::invalid_request(
                "this server needs an initialize handshake",
                None,
            ));
        }
        Ok(())
    }
}

impl ServerHandler for Everything {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed();
        // A server of the older era has never heard of the tasks extension.
        let capabilities = if self.world.era == Era::Legacy {
            capabilities.build()
        } else {
            capabilities.enable_tasks().build()
        };
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(
                "everything-fixture",
                env!("CARGO_PKG_VERSION"),
            ))
            .with_instructions("A fixture. Call anything; nothing here has consequences.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        match self.world.era {
            Era::Modern => Cow::Borrowed(&[ProtocolVersion::V_2026_07_28]),
            // A legacy server does not know which versions it lacks: `admit` and `discover` refuse instead.
            Era::Legacy | Era::Both => Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
        }
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        if self.world.era == Era::Legacy {
            return Err(ErrorData::new(
                rmcp::model::ErrorCode::METHOD_NOT_FOUND,
                "Method not found",
                None,
            ));
        }
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.listen_from_now();
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let forwarding = forward_to_session(self.take_ear(), context.peer, self.watched.clone());
        *lock(&self.forwarder) = Some(Forwarder(tokio::spawn(forwarding).abort_handle()));
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.listen_from_now();
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut ear = self.take_ear();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                heard = ear.recv() => match heard {
                    Ok(change) => forward_to_listener(context.sink(), change).await,
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return Ok(()),
                },
            }
        }
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.admit(&context)?;
        Ok(ListToolsResult::with_all_items(self.world.tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.world.tool(name)
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.admit(&context)?;
        let log_level = self.log_level(&context);
        tools::call(&Call {
            world: &self.world,
            params: &params,
            context: &context,
            log_level,
        })
        .await
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list(
            &self.world,
        )))
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&self.world, &params, &context).await
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        prompts::complete(&params)
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list()))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::templates(),
        ))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(resources::read(&params.uri)?.into())
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        lock(&self.watched).insert(params.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        lock(&self.watched).remove(&params.uri);
        Ok(())
    }

    async fn set_level(
        &self,
        params: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if ask::is_modern(&context) {
            return Err(ErrorData::method_not_found::<
                rmcp::model::SetLevelRequestMethod,
            >());
        }
        *lock(&self.log_level) = Some(params.level);
        Ok(())
    }

    async fn get_task(
        &self,
        params: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(
            self.world.tasks.get_task(&params.task_id)?,
        ))
    }

    async fn update_task(
        &self,
        params: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.world
            .tasks
            .update_task(&params.task_id, params.input_responses)
    }

    async fn cancel_task(
        &self,
        params: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.world.tasks.cancel_task(&params.task_id)
    }
}

async fn forward_to_session(
    mut ear: broadcast::Receiver<Change>,
    peer: Peer<RoleServer>,
    watched: Arc<Mutex<BTreeSet<String>>>,
) {
    loop {
        let change = match ear.recv().await {
            Ok(change) => change,
            Err(broadcast::error::RecvError::Lagged(_)) => continue,
            Err(broadcast::error::RecvError::Closed) => return,
        };
        let sent = match change {
            Change::Tools => peer.notify_tool_list_changed().await,
            Change::Prompts => peer.notify_prompt_list_changed().await,
            Change::Resources => peer.notify_resource_list_changed().await,
            Change::Resource(uri) => {
                if !lock(&watched).contains(&uri) {
                    continue;
                }
                peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri))
                    .await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn forward_to_listener(sink: &SubscriptionSink, change: Change) {
    // A refusal means the listener did not ask for this kind, or has gone: nothing to do in either case.
    let _refused = match change {
        Change::Tools => sink.notify_tool_list_changed().await,
        Change::Prompts => sink.notify_prompt_list_changed().await,
        Change::Resources => sink.notify_resource_list_changed().await,
        Change::Resource(uri) => sink.notify_resource_updated(uri).await,
    };
}
