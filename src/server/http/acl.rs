//! The endpoints of the ACL.

use std::collections::BTreeSet;

use serde_json::json;
use zeroize::Zeroizing;

use super::filtering::Paging;
use super::operator::{Shown, shown};
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::acl::{Bearer, NewToken, TokenExpiry, TokenKind, TokenUpdate};
use crate::error::{AclError, RequestError, ServerError};
use nomad_csi_claims::state::{AclKey, AclPolicyEntry, AclRecord};
use nomad_csi_model::GoDuration;
use nomad_csi_wire::{
    BootstrapDocument, DurationDocument, PolicyDocument, TokenDocument, TokenSecret,
    nanoseconds_from_wire, time_to_wire,
};

/// The time that Go's clients send for never.
const NEVER: &str = "0001-01-01T00:00:00Z";

type Result<T = Reply> = std::result::Result<T, ServerError>;

/// Makes the first token.
pub(super) async fn bootstrap(request: &IncomingRequest) -> Result {
    request.services.acl.check_enabled()?;
    let document = match request.body.bytes.is_empty() {
        true => BootstrapDocument::default(),
        false => request.document()?,
    };
    let secret = document.bootstrap_secret.0;
    let secret = (!secret.is_empty()).then(|| Zeroizing::new(secret));
    let (record, secret) = request.services.acl.bootstrap(secret).await?;
    created(request, &record, &secret)
}

/// A new token with its secret, which is shown here only.
fn created(request: &IncomingRequest, record: &AclRecord, secret: &str) -> Result {
    let document =
        TokenDocument { secret_id: TokenSecret(secret.to_owned()), ..token_document(record) };
    Ok(Reply::json(&document, request.pretty)?.with_index(record.modify_index))
}

/// Describes the client. It has its secret already, so the response may repeat it, as Nomad's does.
pub(super) fn read_own_token(request: &IncomingRequest) -> Result {
    request.services.acl.check_enabled()?;
    let document = match request.credentials.bearer(&request.services)? {
        Bearer::Operator => TokenDocument {
            accessor_id: "operator".to_owned(),
            name: "Operator of the server".to_owned(),
            kind: "management".to_owned(),
            ..TokenDocument::default()
        },
        Bearer::Anonymous => TokenDocument {
            accessor_id: "anonymous".to_owned(),
            name: "Anonymous Token".to_owned(),
            kind: "client".to_owned(),
            policies: Some(vec!["anonymous".to_owned()]),
            ..TokenDocument::default()
        },
        Bearer::Token(record) => {
            let secret = match shown(&request.headers) {
                Shown::One(secret) => String::from_utf8_lossy(secret).into_owned(),
                Shown::None | Shown::Several => String::new(),
            };
            TokenDocument { secret_id: TokenSecret(secret), ..token_document(&record) }
        }
    };
    Reply::json(&document, request.pretty)
}

pub(super) fn list_tokens(request: &IncomingRequest) -> Result {
    request.services.acl.check_enabled()?;
    let page = Paging::of(&request.parameters)?;
    let prefix = request.parameters.prefix();
    let only_global = request.parameters.text("global") == Some("true");
    let (documents, index) = request.services.cell.read(|state| {
        let tokens = state.acl_tokens().map(|record| token_document(record));
        let listed = tokens.filter(|token| {
            token.accessor_id.starts_with(prefix) && (!only_global || token.global)
        });
        (listed.collect::<Vec<_>>(), state.acl_index())
    });
    let (documents, next) = page.page(documents, |token| token.accessor_id.clone())?;
    Ok(Reply::json(&documents, request.pretty)?.with_index(index).with_next_token(next))
}

/// A token of another one is shown to those who manage the cluster.
pub(super) fn read_token(request: &IncomingRequest, accessor: &str) -> Result {
    request.services.acl.check_enabled()?;
    let key = AclKey::Token(accessor.to_owned());
    let is_own = match request.credentials.bearer(&request.services)? {
        Bearer::Token(own) => own.key == key,
        Bearer::Operator | Bearer::Anonymous => false,
    };
    if !is_own && !request.rights()?.is_management() {
        return Err(request.denied("a management token".to_owned()));
    }
    let record = request.services.cell.read(|state| state.acl(&key).cloned());
    let record = record.ok_or_else(|| AclError::NoToken(accessor.to_owned()))?;
    let reply = Reply::json(&token_document(&record), request.pretty)?;
    Ok(reply.with_index(record.modify_index))
}

/// Creates a token, or changes the one that the path names.
pub(super) async fn write_token(request: &IncomingRequest, accessor: Option<&str>) -> Result {
    let acl = &request.services.acl;
    acl.check_enabled()?;
    let document: TokenDocument = request.document()?;
    if document.roles.as_ref().is_some_and(|roles| !roles.is_empty()) {
        let why = "this server has no roles: name the policies of the token".to_owned();
        return Err(AclError::Invalid(why).into());
    }
    let kind = token_kind(&document)?;
    let named = Some(document.accessor_id.as_str()).filter(|accessor| !accessor.is_empty());
    let accessor = match (accessor, named) {
        (Some(path), Some(body)) if path != body => {
            let why = format!("the path names token `{path}` and the body `{body}`");
            return Err(AclError::Invalid(why).into());
        }
        (Some(accessor), _) => accessor,
        // Nomad's clients create a token without an accessor ID.
        (None, None) => {
            let expiry = expiry(&document)?;
            let new = NewToken { name: document.name, kind, is_global: document.global, expiry };
            let (record, secret) = acl.create_token(new).await?;
            return created(request, &record, &secret);
        }
        (None, Some(_)) => {
            let why = "a new token has no `AccessorID`: the server chooses it".to_owned();
            return Err(AclError::Invalid(why).into());
        }
    };
    check_same_expiry(request, accessor, &document)?;
    let update = TokenUpdate { name: document.name, kind };
    let record = acl.update_token(accessor, update).await?;
    let reply = Reply::json(&token_document(&record), request.pretty)?;
    Ok(reply.with_index(record.modify_index))
}

/// Refuses an update that would end a token at another time: nothing changes that.
fn check_same_expiry(
    request: &IncomingRequest,
    accessor: &str,
    document: &TokenDocument,
) -> Result<()> {
    let recorded = request.services.cell.read(|state| {
        let record = state.acl(&AclKey::Token(accessor.to_owned()))?;
        Some(record.token()?.expires_at)
    });
    let wanted = match expiry(document)? {
        TokenExpiry::Never => return Ok(()),
        TokenExpiry::At(at) => Some(at),
        TokenExpiry::After(_) => None,
    };
    match recorded {
        Some(recorded) if wanted.is_none() || wanted != recorded => {
            let why = "the expiry of a token cannot be changed: create another token".to_owned();
            Err(AclError::Invalid(why).into())
        }
        Some(_) | None => Ok(()),
    }
}

pub(super) async fn delete_token(request: &IncomingRequest, accessor: &str) -> Result {
    request.services.acl.check_enabled()?;
    let index = request.services.acl.delete_token(accessor).await?;
    Ok(Reply::empty().with_index(index))
}

/// Lists the policies: all for those who manage the cluster, and their own for the others.
pub(super) fn list_policies(request: &IncomingRequest) -> Result {
    let page = Paging::of(&request.parameters)?;
    let prefix = request.parameters.prefix();
    let (policies, index) = visible_policies(request)?;
    let stubs = policies.into_iter().filter(|policy| policy.name.starts_with(prefix));
    let stubs = stubs.map(|policy| PolicyDocument { rules: String::new(), ..policy }).collect();
    let (stubs, next) = page.page(stubs, |policy: &PolicyDocument| policy.name.clone())?;
    Ok(Reply::json(&stubs, request.pretty)?.with_index(index).with_next_token(next))
}

/// Returns the policies of the client's own token, with their rules.
pub(super) fn read_own_policies(request: &IncomingRequest) -> Result {
    let (policies, index) = visible_policies(request)?;
    Ok(Reply::json(&policies, request.pretty)?.with_index(index))
}

pub(super) fn read_policy(request: &IncomingRequest, name: &str) -> Result {
    let (policies, _) = visible_policies(request)?;
    let found = policies.into_iter().find(|policy| policy.name == name);
    let found = match (found, request.rights()?.is_management()) {
        (Some(found), _) => found,
        (None, true) => return Err(AclError::NoPolicy(name.to_owned()).into()),
        (None, false) => return Err(request.denied(format!("policy {name}"))),
    };
    let reply = Reply::json(&found, request.pretty)?;
    Ok(reply.with_index(found.modify_index))
}

/// Returns the policies that the client may read, sorted by name.
fn visible_policies(request: &IncomingRequest) -> Result<(Vec<PolicyDocument>, u64)> {
    request.services.acl.check_enabled()?;
    let own: Option<BTreeSet<String>> = match request.credentials.bearer(&request.services)? {
        Bearer::Operator => None,
        Bearer::Anonymous => Some(["anonymous".to_owned()].into()),
        Bearer::Token(record) => record.token().and_then(|token| token.policies.clone()),
    };
    Ok(request.services.cell.read(|state| {
        let all = state.acl_policies().filter_map(|record| policy_document(record));
        let seen = all.filter(|policy| own.as_ref().is_none_or(|own| own.contains(&policy.name)));
        (seen.collect(), state.acl_index())
    }))
}

pub(super) async fn write_policy(request: &IncomingRequest, name: &str) -> Result {
    request.services.acl.check_enabled()?;
    let document: PolicyDocument = request.document()?;
    if !document.name.is_empty() && document.name != name {
        let body = &document.name;
        let why = format!("the path names policy `{name}` and the body `{body}`");
        return Err(AclError::Invalid(why).into());
    }
    let entry = AclPolicyEntry { description: document.description, rules: document.rules };
    let index = request.services.acl.write_policy(name, entry).await?;
    Reply::json(&json!({"Index": index}), request.pretty).map(|reply| reply.with_index(index))
}

pub(super) async fn delete_policy(request: &IncomingRequest, name: &str) -> Result {
    request.services.acl.check_enabled()?;
    let index = request.services.acl.delete_policy(name).await?;
    Ok(Reply::empty().with_index(index))
}

fn token_kind(document: &TokenDocument) -> Result<TokenKind> {
    let policies: BTreeSet<String> = document.policies.iter().flatten().cloned().collect();
    match document.kind.as_str() {
        "management" if policies.is_empty() => Ok(TokenKind::Management),
        "management" => {
            let why = "management token cannot be associated with policies or roles".to_owned();
            Err(AclError::Invalid(why).into())
        }
        "client" => Ok(TokenKind::Client(policies)),
        other => {
            let why = format!("the token has type {other:?}: it is `client` or `management`");
            Err(AclError::Invalid(why).into())
        }
    }
}

/// When a new token ends.
fn expiry(document: &TokenDocument) -> Result<TokenExpiry> {
    let at = match document.expiration_time.as_deref() {
        None | Some("" | NEVER) => 0,
        Some(text) => match nanoseconds_from_wire(Some(text)) {
            at if at > 0 => at,
            _ => {
                let why = format!("ExpirationTime: {text:?} is not a time in RFC 3339");
                return Err(RequestError::Body(why).into());
            }
        },
    };
    let life = match &document.expiration_ttl {
        None | Some(DurationDocument::Nanoseconds(0)) => None,
        Some(DurationDocument::Nanoseconds(life)) => Some(
            GoDuration(*life)
                .to_std()
                .ok_or_else(|| RequestError::Body("ExpirationTTL is negative".to_owned()))?,
        ),
        Some(DurationDocument::Text(text)) if matches!(text.as_str(), "" | "0s") => None,
        Some(DurationDocument::Text(text)) => {
            let life = GoDuration::parse(text).ok().and_then(GoDuration::to_std);
            Some(life.ok_or_else(|| {
                RequestError::Body(format!("ExpirationTTL: {text:?} is not a duration"))
            })?)
        }
    };
    match (at, life) {
        (0, None) => Ok(TokenExpiry::Never),
        (0, Some(life)) => Ok(TokenExpiry::After(life)),
        (at, None) => Ok(TokenExpiry::At(at)),
        (_, Some(_)) => {
            let why = "token expiration TTL and expiration time cannot both be set".to_owned();
            Err(AclError::Invalid(why).into())
        }
    }
}

fn token_document(record: &AclRecord) -> TokenDocument {
    let Some(token) = record.token() else {
        return TokenDocument::default();
    };
    TokenDocument {
        accessor_id: match &record.key {
            AclKey::Token(accessor) => accessor.clone(),
            AclKey::Bootstrap | AclKey::Policy(_) => String::new(),
        },
        name: token.name.clone(),
        kind: match token.policies {
            None => "management".to_owned(),
            Some(_) => "client".to_owned(),
        },
        policies: token.policies.as_ref().map(|policies| policies.iter().cloned().collect()),
        global: token.is_global,
        create_time: time_to_wire(record.create_time),
        expiration_time: token.expires_at.and_then(time_to_wire),
        create_index: record.create_index,
        modify_index: record.modify_index,
        ..TokenDocument::default()
    }
}

fn policy_document(record: &AclRecord) -> Option<PolicyDocument> {
    let (policy, AclKey::Policy(name)) = (record.policy()?, &record.key) else {
        return None;
    };
    Some(PolicyDocument {
        name: name.clone(),
        description: policy.description.clone(),
        rules: policy.rules.clone(),
        create_index: record.create_index,
        modify_index: record.modify_index,
    })
}
