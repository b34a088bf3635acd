//! `/v1/metrics`: Nomad's JSON, or with `format=prometheus` the text that Prometheus reads.

use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::ServerError;
use nomad_csi_wire::metrics_summary;

pub(super) fn read(request: &IncomingRequest) -> Result<Reply, ServerError> {
    let text = request.services.metrics();
    match request.parameters.get("format") {
        Some("prometheus") => Ok(Reply::metrics(text)),
        Some(_) | None => {
            let summary = metrics_summary(&text, request.services.now());
            Reply::json(&summary, request.pretty)
        }
    }
}
