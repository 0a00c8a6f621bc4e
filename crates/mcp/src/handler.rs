//! The requests of the protocol.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorCode, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::Semaphore;

use crate::detector::Detector;
use crate::tools::{self, BadCall, Call};

/// The number of texts that are judged at the same time. Judging a text uses several threads, and memory of many times
/// its size.
const AT_A_TIME: usize = 2;

const INSTRUCTIONS: &str = "These tools test whether texts carry a statistical watermark, from the text alone. Pass the \
                            text as it is, without a summary, a translation or quotation marks.";

/// Answers the requests of clients.
#[derive(Clone)]
pub(crate) struct Handler {
    detector: Arc<Detector>,
    tools: Arc<[Tool]>,
    slots: Arc<Semaphore>,
}

impl Handler {
    pub(crate) fn new(detector: Detector) -> Self {
        let tools = tools::all(detector.max_text()).into();
        Self { detector: Arc::new(detector), tools, slots: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    async fn call(&self, request: CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
        let call = match Call::read(&request.name, request.arguments) {
            Ok(call) => call,
            Err(BadCall::Unknown) => {
                let names: Vec<&str> = self.tools.iter().map(|tool| &*tool.name).collect();
                let message = format!("the tool is unknown: there are {}", names.join(", "));
                return Err(ErrorData::new(ErrorCode::INVALID_PARAMS, message, None));
            }
            Err(BadCall::Arguments(fault)) => return Ok(failed(fault)),
        };
        // The semaphore is never closed.
        let slot = self.slots.clone().acquire_owned().await;
        let detector = self.detector.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            call.run(&detector)
        });
        match done.await {
            Ok(Ok(found)) => Ok(CallToolResult::structured(found).into()),
            Ok(Err(fault)) => Ok(failed(fault)),
            Err(_) => Err(ErrorData::internal_error("the text could not be judged", None)),
        }
    }
}

/// The result of a call that failed, with the reason for the client.
fn failed(fault: String) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(fault)]).into()
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("verdigris", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request).await
    }
}
