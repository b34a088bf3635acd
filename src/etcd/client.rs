//! [`EtcdClient`]: etcd's API over connections of its own.
//!
//! Each request has 2 s at one member: a member that stands still keeps connections open and answers nothing. A member that
//! failed is left for 5 s, and etcd's leader is preferred, which saves a hop and keeps requests in order. Pings are 6 s
//! apart: etcd closes connections that ping more often than every 5 s.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use futures_util::stream;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};
use tower::service_fn;

use crate::api::{
    Condition, Etcd, KeyValue, Lease, MemberStatus, Operation, Range, RangeAnswer, Transaction,
    TransactionAnswer,
};
use crate::error::{EtcdError, EtcdErrorKind};
use crate::messages as wire;

/// The time of one request.
const REQUEST: Duration = Duration::from_secs(2);
/// The time of one renewal of a lease.
const RENEWAL: Duration = Duration::from_secs(1);
/// The time of a defragmentation.
const DEFRAGMENTATION: Duration = Duration::from_secs(600);
const CONNECT: Duration = Duration::from_secs(1);
const PING: Duration = Duration::from_secs(6);
const PONG: Duration = Duration::from_secs(2);
/// How long a member is left after a failure.
const LEFT_FOR: Duration = Duration::from_secs(5);
/// The most bytes of an answer.
const MAX_ANSWER: usize = 16 << 20;

/// The certificate and the authorities for members with `https`.
pub type EtcdTls = Arc<ClientConfig>;

/// The address of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdEndpoint {
    uri: Uri,
}

/// An address of a member that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is no address.
    #[error("it is not of the form `https://HOST:PORT`")]
    Form,
    /// Everyone on the way could read and change what is sent.
    #[error("without TLS only an address of this machine is possible")]
    Clear,
}

impl EtcdEndpoint {
    /// Reads `https://HOST:PORT`, or `http://` with an address of this machine.
    ///
    /// # Errors
    /// If it is something else.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let uri: Uri = text.trim_end_matches('/').parse().map_err(|_| EndpointError::Form)?;
        let host = uri.host().ok_or(EndpointError::Form)?;
        let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
        let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        if uri.port_u16().is_none() || has_path || has_user {
            return Err(EndpointError::Form);
        }
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let is_here = address == "localhost"
            || address.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        match uri.scheme_str() {
            Some("https") => Ok(Self { uri }),
            Some("http") if is_here => Ok(Self { uri }),
            Some("http") => Err(EndpointError::Clear),
            Some(_) | None => Err(EndpointError::Form),
        }
    }

    /// Returns whether connections are encrypted.
    pub fn has_tls(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }
}

impl std::fmt::Display for EtcdEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.uri.to_string().trim_end_matches('/'))
    }
}

struct Member {
    address: String,
    channel: Channel,
    left_until: Mutex<Option<Instant>>,
}

/// A client of the members of one etcd cluster.
pub struct EtcdClient {
    members: Vec<Member>,
    preferred: AtomicUsize,
}

impl EtcdClient {
    /// Returns a client of these members, which connects when it is used. Those with `https` need `tls`.
    pub fn new(endpoints: &[EtcdEndpoint], tls: Option<&EtcdTls>) -> Self {
        let member = |endpoint: &EtcdEndpoint| Member {
            address: endpoint.to_string(),
            channel: channel(endpoint, tls),
            left_until: Mutex::new(None),
        };
        Self { members: endpoints.iter().map(member).collect(), preferred: AtomicUsize::new(0) }
    }

    /// Returns the members in the order in which they are tried: the preferred one first, and those that failed lately last.
    fn order(&self) -> Vec<&Member> {
        let now = Instant::now();
        let count = self.members.len();
        let first = self.preferred.load(Ordering::Relaxed);
        let mut order: Vec<_> = (0..count).map(|at| &self.members[(first + at) % count]).collect();
        order.sort_by_key(|member| member.left_until.lock().is_some_and(|until| until > now));
        order
    }

    /// Sends a request to one member.
    async fn once<T, F: Future<Output = Result<T, Status>>>(
        &self,
        limit: Duration,
        request: impl Fn(Channel) -> F,
    ) -> Result<T, EtcdError> {
        match self.order().first() {
            Some(member) => ask(member, limit, request(member.channel.clone())).await,
            None => Err(no_members()),
        }
    }

    /// Sends a request that may be repeated to one member after the other, until one answers.
    async fn repeated<T, F: Future<Output = Result<T, Status>>>(
        &self,
        request: impl Fn(Channel) -> F,
    ) -> Result<T, EtcdError> {
        let mut last = no_members();
        for member in self.order() {
            match ask(member, REQUEST, request(member.channel.clone())).await {
                Err(error) if error.kind == EtcdErrorKind::Unknown => last = error,
                answer => return answer,
            }
        }
        Err(last)
    }
}

fn no_members() -> EtcdError {
    let reason = "no address is configured".to_owned();
    EtcdError { kind: EtcdErrorKind::Unknown, member: String::new(), reason }
}

/// Sends a request to this member, which is left for a while if it fails.
async fn ask<T>(
    member: &Member,
    limit: Duration,
    request: impl Future<Output = Result<T, Status>>,
) -> Result<T, EtcdError> {
    let answer = timeout(limit, request).await;
    let answer =
        answer.unwrap_or_else(|_| Err(Status::new(Code::DeadlineExceeded, "no answer in time")));
    let failed = |status: Status| {
        let kind = EtcdErrorKind::of(status.code(), status.message());
        if kind == EtcdErrorKind::Unknown {
            *member.left_until.lock() = Some(Instant::now() + LEFT_FOR);
        }
        EtcdError { kind, member: member.address.clone(), reason: reason_of(&status) }
    };
    answer.map_err(failed)
}

fn reason_of(status: &Status) -> String {
    let mut reason = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let text = error.to_string();
        if !reason.contains(&text) {
            reason = format!("{reason}: {text}");
        }
        cause = error.source();
    }
    reason
}

fn channel(endpoint: &EtcdEndpoint, tls: Option<&EtcdTls>) -> Channel {
    let settings = Endpoint::from(endpoint.uri.clone())
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true);
    match tls.filter(|_| endpoint.has_tls()) {
        None => settings.connect_lazy(),
        Some(tls) => {
            let connector = TlsConnector::from(tls.clone());
            let host = endpoint.uri.host().unwrap_or_default();
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = endpoint.uri.port_u16().unwrap_or_default();
            settings.connect_with_connector_lazy(service_fn(move |_: Uri| {
                let (connector, host) = (connector.clone(), host.clone());
                async move {
                    let name = ServerName::try_from(host.clone()).map_err(std::io::Error::other)?;
                    let tcp = TcpStream::connect((host.as_str(), port)).await?;
                    tcp.set_nodelay(true)?;
                    Ok::<_, std::io::Error>(TokioIo::new(connector.connect(name, tcp).await?))
                }
            }))
        }
    }
}

fn kv(channel: Channel) -> wire::kv_client::KvClient<Channel> {
    wire::kv_client::KvClient::new(channel).max_decoding_message_size(MAX_ANSWER)
}

fn lease(channel: Channel) -> wire::lease_client::LeaseClient<Channel> {
    wire::lease_client::LeaseClient::new(channel)
}

fn maintenance(channel: Channel) -> wire::maintenance_client::MaintenanceClient<Channel> {
    wire::maintenance_client::MaintenanceClient::new(channel)
}

#[async_trait]
impl Etcd for EtcdClient {
    fn addresses(&self) -> String {
        let all: Vec<_> = self.members.iter().map(|member| member.address.as_str()).collect();
        all.join(",")
    }

    async fn transact(&self, transaction: Transaction) -> Result<TransactionAnswer, EtcdError> {
        let request = to_wire(&transaction);
        let answer = self
            .once(REQUEST, |channel| {
                let request = request.clone();
                async move { Ok(kv(channel).txn(request).await?.into_inner()) }
            })
            .await?;
        Ok(from_wire(answer))
    }

    async fn range(&self, range: Range) -> Result<RangeAnswer, EtcdError> {
        let answer = self
            .repeated(|channel| {
                let Range { from, to, limit, revision, keys_only } = range.clone();
                let request = wire::RangeRequest {
                    key: from,
                    range_end: to,
                    limit,
                    revision,
                    serializable: false,
                    keys_only,
                };
                async move { Ok(kv(channel).range(request).await?.into_inner()) }
            })
            .await?;
        let wire::RangeResponse { header, kvs, more, .. } = answer;
        Ok(RangeAnswer {
            kvs: kvs.into_iter().map(key_value).collect(),
            more,
            revision: revision(header.as_ref()),
        })
    }

    async fn compact(&self, revision: i64) -> Result<(), EtcdError> {
        let request = |channel| async move {
            let request = wire::CompactionRequest { revision, physical: false };
            kv(channel).compact(request).await?;
            Ok(())
        };
        self.repeated(request).await
    }

    async fn grant(&self, seconds: i64) -> Result<Lease, EtcdError> {
        let request = |channel| async move {
            let request = wire::LeaseGrantRequest { ttl: seconds, id: 0 };
            Ok(lease(channel).lease_grant(request).await?.into_inner())
        };
        let answer = self.once(REQUEST, request).await?;
        Ok(Lease { id: answer.id, seconds: answer.ttl })
    }

    async fn keep_alive(&self, id: i64) -> Result<i64, EtcdError> {
        let request = |channel| async move {
            let requests = stream::iter([wire::LeaseKeepAliveRequest { id }]);
            let mut answers = lease(channel).lease_keep_alive(requests).await?.into_inner();
            let answer = answers.message().await?;
            answer.map(|answer| answer.ttl).ok_or_else(|| Status::unavailable("no answer"))
        };
        self.once(RENEWAL, request).await
    }

    async fn revoke(&self, id: i64) -> Result<(), EtcdError> {
        let request = |channel| async move {
            lease(channel).lease_revoke(wire::LeaseRevokeRequest { id }).await?;
            Ok(())
        };
        self.repeated(request).await
    }

    async fn status(&self) -> Vec<MemberStatus> {
        let ask_one = |member: &Member| {
            let (address, channel) = (member.address.clone(), member.channel.clone());
            async move {
                let asked = maintenance(channel).status(wire::StatusRequest {}).await;
                (address, asked.map(tonic::Response::into_inner).ok())
            }
        };
        let asked = self.members.iter().map(|member| timeout(RENEWAL, ask_one(member)));
        let answers = join_all(asked).await;
        let mut found = vec![];
        for (at, answer) in answers.into_iter().enumerate() {
            let Ok((member, Some(status))) = answer else {
                continue;
            };
            let id = status.header.as_ref().map_or(0, |header| header.member_id);
            if id != 0 && id == status.leader {
                self.preferred.store(at, Ordering::Relaxed);
            }
            found.push(MemberStatus {
                member,
                id,
                leader: status.leader,
                size: u64::try_from(status.db_size).unwrap_or_default(),
                quota: u64::try_from(status.db_size_quota).unwrap_or_default(),
                version: status.version,
            });
        }
        found
    }

    async fn has_no_space_alarm(&self) -> Result<bool, EtcdError> {
        Ok(!self.no_space_alarms().await?.is_empty())
    }

    async fn defragment(&self, member: &str) -> Result<(), EtcdError> {
        let Some(member) = self.members.iter().find(|one| one.address == member) else {
            return Err(no_members());
        };
        let channel = member.channel.clone();
        let request = async move {
            maintenance(channel).defragment(wire::DefragmentRequest {}).await?;
            Ok(())
        };
        ask(member, DEFRAGMENTATION, request).await
    }

    async fn disarm(&self) -> Result<(), EtcdError> {
        for alarm in self.no_space_alarms().await? {
            self.repeated(|channel| async move {
                let request = wire::AlarmRequest {
                    action: wire::alarm_request::AlarmAction::Deactivate.into(),
                    member_id: alarm,
                    alarm: wire::AlarmType::Nospace.into(),
                };
                maintenance(channel).alarm(request).await?;
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
}

impl EtcdClient {
    /// Returns the IDs of the members with the alarm.
    async fn no_space_alarms(&self) -> Result<Vec<u64>, EtcdError> {
        let request = |channel| async move {
            let request = wire::AlarmRequest {
                action: wire::alarm_request::AlarmAction::Get.into(),
                member_id: 0,
                alarm: wire::AlarmType::None.into(),
            };
            Ok(maintenance(channel).alarm(request).await?.into_inner())
        };
        let alarms = self.repeated(request).await?.alarms.into_iter();
        let alarms = alarms.filter(|alarm| alarm.alarm == i32::from(wire::AlarmType::Nospace));
        Ok(alarms.map(|alarm| alarm.member_id).collect())
    }
}

fn to_wire(transaction: &Transaction) -> wire::TxnRequest {
    wire::TxnRequest {
        compare: transaction.conditions.iter().map(compare).collect(),
        success: transaction.success.iter().map(operation).collect(),
        failure: transaction.failure.iter().map(operation).collect(),
    }
}

fn compare(condition: &Condition) -> wire::Compare {
    use wire::compare::{CompareResult, CompareTarget, TargetUnion};
    let (key, target, value) = match condition {
        Condition::Created(key, at) => {
            (key, CompareTarget::Create, TargetUnion::CreateRevision(*at))
        }
        Condition::Value(key, value) => {
            (key, CompareTarget::Value, TargetUnion::Value(value.clone()))
        }
    };
    wire::Compare {
        result: CompareResult::Equal.into(),
        target: target.into(),
        key: key.clone(),
        target_union: Some(value),
    }
}

fn operation(operation: &Operation) -> wire::RequestOp {
    use wire::request_op::Request;
    let request = match operation.clone() {
        Operation::Put { key, value, lease } => {
            Request::Put(wire::PutRequest { key, value, lease })
        }
        Operation::Get { key } => Request::Range(wire::RangeRequest { key, ..Default::default() }),
        Operation::Delete { from, to } => {
            Request::DeleteRange(wire::DeleteRangeRequest { key: from, range_end: to })
        }
    };
    wire::RequestOp { request: Some(request) }
}

fn from_wire(answer: wire::TxnResponse) -> TransactionAnswer {
    use wire::response_op::Response;
    let mut found = vec![];
    for response in answer.responses {
        match response.response {
            Some(Response::Range(range)) => {
                found.push(range.kvs.into_iter().next().map(key_value));
            }
            Some(Response::Put(_) | Response::DeleteRange(_)) | None => {}
        }
    }
    let revision = revision(answer.header.as_ref());
    TransactionAnswer { succeeded: answer.succeeded, revision, found }
}

fn key_value(kv: wire::KeyValue) -> KeyValue {
    let wire::KeyValue { key, create_revision, value, lease, .. } = kv;
    KeyValue { key, create_revision, value, lease }
}

fn revision(header: Option<&wire::ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_tls_are_of_this_machine() {
        for text in [
            "https://etcd-1:2379",
            "https://10.0.0.1:2379/",
            "http://127.0.0.1:2379",
            "http://[::1]:1",
        ] {
            assert!(EtcdEndpoint::parse(text).is_ok(), "{text}");
        }
        assert_eq!(EtcdEndpoint::parse("http://10.0.0.1:2379"), Err(EndpointError::Clear));
        for text in [
            "",
            "etcd-1:2379",
            "https://etcd-1",
            "ftp://a:1",
            "https://a:1/x",
            "https://u:p@a:1",
            "unix:/a",
        ] {
            assert_eq!(EtcdEndpoint::parse(text), Err(EndpointError::Form), "{text}");
        }
    }

    #[tokio::test]
    async fn a_member_that_failed_is_left_for_a_while() {
        let endpoint = |port| EtcdEndpoint::parse(&format!("http://127.0.0.1:{port}")).unwrap();
        let client = EtcdClient::new(&[endpoint(1), endpoint(2)], None);
        let first = |client: &EtcdClient| client.order()[0].address.clone();
        assert_eq!(first(&client), "http://127.0.0.1:1");
        let failed = client.transact(Transaction::default()).await.unwrap_err();
        assert_eq!(
            (failed.kind, failed.member.as_str()),
            (EtcdErrorKind::Unknown, "http://127.0.0.1:1")
        );
        assert_eq!(first(&client), "http://127.0.0.1:2");
        let failed = client.range(Range::default()).await.unwrap_err();
        assert_eq!(failed.kind, EtcdErrorKind::Unknown, "{failed}");
        assert!(client.status().await.is_empty());
    }
}
