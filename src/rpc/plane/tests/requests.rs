//! Requests of the HTTP API that a server forwards to the one that leads.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::future::join_all;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::{Body as _, Service};
use tonic::server::NamedService;
use tonic::service::Routes;

use super::bed::{Certificates, soon};
use crate::tls::role::Role;
use crate::transport::connected_nodes::ConnectedNodes;
use crate::transport::leader_connection::LeaderConnection;
use crate::transport::listener::{LeaderServices, NodeListener};

/// More than a response may have on its way, and all responses together more than one connection of a node may.
const LARGE: usize = 1 << 20;

/// An API with a large response, and one that waits.
#[derive(Clone)]
struct Api {
    arrived: watch::Sender<usize>,
    is_open: watch::Sender<bool>,
}

impl NamedService for Api {
    const NAME: &'static str = "v1";
}

impl Service<http::Request<Body>> for Api {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.arrived.send_modify(|count| *count += 1);
        let mut is_open = self.is_open.subscribe();
        Box::pin(async move {
            let text = match request.uri().path() {
                "/v1/large" => "x".repeat(LARGE),
                "/v1/held" => {
                    is_open.wait_for(|is_open| *is_open).await.ok();
                    "held".to_owned()
                }
                path => path.to_owned(),
            };
            Ok(http::Response::new(Body::new(text)))
        })
    }
}

/// A server that leads, with this API.
struct Leader {
    certificates: Certificates,
    address: SocketAddr,
    api: Api,
    stop_requests: CancellationToken,
    requests_ended: CancellationToken,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

impl Leader {
    async fn start() -> Self {
        let certificates = Certificates::new();
        let (_, tls) = watch::channel(certificates.tls(Role::Server, "s1"));
        let listener = NodeListener::bind("127.0.0.1:0".parse().unwrap(), tls).await.unwrap();
        let address = listener.address().unwrap();
        let api = Api { arrived: watch::Sender::new(0), is_open: watch::Sender::new(false) };
        let (stop, stop_requests) = (CancellationToken::new(), CancellationToken::new());
        let requests_ended = CancellationToken::new();
        let services = LeaderServices {
            nodes: Arc::new(ConnectedNodes::default()),
            calls: Routes::default(),
            requests: Routes::new(api.clone()),
            stop_requests: stop_requests.clone(),
            requests_ended: requests_ended.clone(),
        };
        let stopped = stop.clone();
        let served = tokio::spawn(async move { listener.serve(services, stopped).await });
        Self { certificates, address, api, stop_requests, requests_ended, stop, served }
    }

    fn connection(&self) -> LeaderConnection {
        let (_, tls) = watch::channel(self.certificates.tls(Role::Server, "s2"));
        LeaderConnection::new(tls)
    }

    async fn stop(self) {
        self.stop.cancel();
        soon("the leader stops", self.served).await.unwrap();
    }
}

async fn get(connection: &LeaderConnection, leader: SocketAddr, path: &str) -> Body {
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    let leader = leader.to_string();
    let sent = connection.send(&leader, request);
    soon("a response", sent).await.unwrap().into_body()
}

async fn length(mut body: Body) -> usize {
    let mut length = 0;
    while let Some(frame) =
        std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
    {
        length += frame.unwrap().into_data().map_or(0, |data| data.len());
    }
    length
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_no_other_one() {
    let leader = Leader::start().await;
    let connection = leader.connection();
    let mut unread = vec![];
    for _ in 0..64 {
        unread.push(get(&connection, leader.address, "/v1/large").await);
    }
    let small = get(&connection, leader.address, "/v1/small").await;
    assert_eq!(soon("the small response", length(small)).await, "/v1/small".len());
    let last = unread.pop().unwrap();
    assert_eq!(soon("a large response", length(last)).await, LARGE);
    drop(unread);
    leader.stop().await;
}

#[tokio::test]
async fn a_stop_completes_requests_that_are_under_way() {
    let leader = Leader::start().await;
    let connection = Arc::new(leader.connection());
    let held = {
        let (connection, address) = (connection.clone(), leader.address);
        tokio::spawn(async move { length(get(&connection, address, "/v1/held").await).await })
    };
    let mut arrived = leader.api.arrived.subscribe();
    soon("the request", arrived.wait_for(|count| *count == 1)).await.unwrap();
    leader.stop_requests.cancel();
    tokio::task::yield_now().await;
    assert!(!leader.requests_ended.is_cancelled());
    leader.api.is_open.send_replace(true);
    assert_eq!(soon("the response", held).await.unwrap(), "held".len());
    soon("the end of all requests", leader.requests_ended.cancelled()).await;
    leader.stop().await;
}

/// Requests that wait for a new leader do not each open a connection to it.
#[tokio::test]
async fn many_requests_at_once_have_one_connection() {
    let leader = Leader::start().await;
    let connection = leader.connection();
    let way = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, opened) = (way.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let (counted, server) = (opened.clone(), leader.address);
    let passing = tokio::spawn(async move {
        while let Ok((mut client, _)) = way.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut server = TcpStream::connect(server).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    });
    let all = (0..200).map(|_| get(&connection, address, "/v1/small"));
    let all = soon("all responses", join_all(all)).await;
    assert_eq!((all.len(), opened.load(Ordering::Relaxed)), (200, 1));
    passing.abort();
    leader.stop().await;
}
