//! The endpoints of namespaces.

use super::blocking::wait_for_index;
use super::filtering::Paging;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::{NamespaceError, ServerError};
use nomad_csi_claims::state::{NamespaceRecord, State, Table, Topic};
use nomad_csi_model::Namespace;
use nomad_csi_wire::NamespaceDocument;

type Result<T = Reply> = std::result::Result<T, ServerError>;

fn topics(_: &State) -> Vec<Topic> {
    vec![Topic::all(Table::Namespaces)]
}

pub(super) async fn list(request: &IncomingRequest) -> Result {
    let page = Paging::of(&request.parameters)?;
    let wait = request.parameters.wait()?;
    wait_for_index(request, wait, topics, State::namespaces_index).await?;
    let prefix = request.parameters.prefix();
    let (all, index) =
        request.services.cell.read(|state| (state.namespaces(), state.namespaces_index()));
    let rights = request.rights()?;
    let matching = all
        .iter()
        .filter(|record| record.name.as_str().starts_with(prefix) && rights.enters(&record.name));
    let documents = matching.map(|record| document(record)).collect();
    let (documents, next) = page.page(documents, |one: &NamespaceDocument| one.name.clone())?;
    let reply = Reply::json(&documents, request.pretty)?;
    Ok(reply.with_index(index).with_next_token(next))
}

pub(super) async fn read(request: &IncomingRequest, name: &str) -> Result {
    let wait = request.parameters.wait()?;
    wait_for_index(request, wait, topics, State::namespaces_index).await?;
    let name = Namespace::new(name);
    if !request.rights()?.enters(&name) {
        return Err(request.denied(format!("any capability in namespace {name}")));
    }
    let record = request.services.namespaces.read(&name)?;
    let reply = Reply::json(&document(&record), request.pretty)?;
    Ok(reply.with_index(record.modify_index))
}

/// Creates or changes a namespace. The name in the path is optional, as in Nomad.
pub(super) async fn write(request: &IncomingRequest, path: Option<&str>) -> Result {
    let document: NamespaceDocument = request.document()?;
    let name = match (document.name.as_str(), path) {
        ("", Some(path)) => path,
        (name, Some(path)) if name != path => {
            let why = format!("the path names namespace `{path}` and the body `{name}`");
            return Err(NamespaceError::Invalid(why).into());
        }
        (name, _) => name,
    };
    if let Some(field) = document.unsupported_field() {
        return Err(NamespaceError::Unsupported(field).into());
    }
    let name = Namespace::new(name);
    let meta = document.meta.clone().unwrap_or_default();
    let service = &request.services.namespaces;
    let index = service.write(name, document.description, meta).await?;
    Ok(Reply::empty().with_index(index))
}

pub(super) async fn delete(request: &IncomingRequest, name: &str) -> Result {
    let name = Namespace::new(name);
    let index = request.services.namespaces.delete(&name).await?;
    Ok(Reply::empty().with_index(index))
}

fn document(record: &NamespaceRecord) -> NamespaceDocument {
    NamespaceDocument {
        name: record.name.to_string(),
        description: record.description.clone(),
        meta: (!record.meta.is_empty()).then(|| record.meta.clone()),
        create_index: record.create_index,
        modify_index: record.modify_index,
        ..NamespaceDocument::default()
    }
}
