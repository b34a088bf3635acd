//! Refuses what a web page of a stranger makes a browser send.
//!
//! Every program of this machine may read. A web page is not such a program, but a browser sends its requests from
//! this machine. Three rules stop them:
//!
//! - Over loopback and the Unix socket, `Host` must be a name of the agent: a loopback address,
//!   `localhost`, or a configured name. A page can let its own name point to 127.0.0.1 (DNS
//!   rebinding), but its requests then carry that name.
//! - `Origin` must be the agent itself or have a configured name.
//! - A write with `Origin` or any `Sec-Fetch-…` header, which browsers set and pages cannot remove, has
//!   `Content-Type: application/json` or none. A page can send other types without asking the agent first.
//!
//! Programs send neither of these headers, the address of the agent as `Host`, and any type: curl declares
//! a form for every `--data`.

use std::net::IpAddr;

use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Method};

use crate::error::RequestError;

/// The longest part of a header that an error shows.
const SHOWN: usize = 100;

/// How the names of the headers begin in which a browser says what made it send a request.
const FETCH_METADATA: &str = "sec-fetch-";

/// The names of the agent besides loopback addresses and `localhost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    /// Allows these names, which are host names or IP addresses without a port.
    ///
    /// # Errors
    /// Returns the first text that is not one.
    pub fn parse(names: &[String]) -> Result<Self, String> {
        let normal = |name: &String| {
            let unbracketed = name.trim_start_matches('[').trim_end_matches(']');
            let is_address = unbracketed.parse::<IpAddr>().is_ok();
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            if is_address || (!name.is_empty() && name.chars().all(is_allowed)) {
                Ok(comparable(unbracketed))
            } else {
                Err(name.clone())
            }
        };
        Ok(Self(names.iter().map(normal).collect::<Result<_, _>>()?))
    }

    fn contains(&self, host: &str) -> bool {
        self.0.iter().any(|name| name == host)
    }
}

/// Checks a request before it is routed. `is_local` says that it came over loopback or the socket.
pub(super) fn check(
    head: &Parts,
    is_local: bool,
    allowed: &AllowedHosts,
) -> Result<(), RequestError> {
    let host = host(head)?;
    if is_local
        && let Some(host) = &host
        && !is_own(host, allowed)
    {
        return Err(RequestError::ForeignHost(shown(host.as_str())));
    }
    for origin in head.headers.get_all(ORIGIN) {
        if !is_own_origin(origin, host.as_ref(), allowed) {
            return Err(RequestError::ForeignOrigin(header_text(origin)));
        }
    }
    let is_write = head.method != Method::GET && head.method != Method::HEAD;
    if is_write && is_of_browser(head) {
        for content_type in head.headers.get_all(CONTENT_TYPE) {
            if !is_json(content_type) {
                return Err(RequestError::ContentType(header_text(content_type)));
            }
        }
    }
    Ok(())
}

/// Returns whether the request has a header that browsers add and that no page can remove: a form sent with `POST` has
/// `Origin`, and every request to this machine has `Sec-Fetch-Site`.
fn is_of_browser(head: &Parts) -> bool {
    head.headers.contains_key(ORIGIN)
        || head.headers.keys().any(|name| name.as_str().starts_with(FETCH_METADATA))
}

/// The host that the client named; `None` if it named none, which no browser does.
fn host(head: &Parts) -> Result<Option<Authority>, RequestError> {
    let refused = |value: &HeaderValue| RequestError::ForeignHost(header_text(value));
    let mut named = head.uri.authority().cloned();
    for value in head.headers.get_all(HOST) {
        let authority = Authority::try_from(value.as_bytes()).map_err(|_| refused(value))?;
        if named.as_ref().is_some_and(|first| *first != authority) {
            return Err(refused(value));
        }
        named = Some(authority);
    }
    Ok(named)
}

fn is_own(host: &Authority, allowed: &AllowedHosts) -> bool {
    if host.as_str().contains('@') {
        return false;
    }
    let name = name(host);
    name == "localhost"
        || address(&name).is_some_and(|address| address.is_loopback())
        || allowed.contains(&name)
}

/// Returns whether a page of this origin may use the agent: one that the agent serves itself under an address,
/// or one with a configured name.
fn is_own_origin(origin: &HeaderValue, host: Option<&Authority>, allowed: &AllowedHosts) -> bool {
    let text = origin.to_str().unwrap_or_default();
    let authority = text.split_once("://").map(|(_, authority)| authority);
    let Some(Ok(origin)) = authority.map(Authority::try_from) else {
        return false;
    };
    let name = name(&origin);
    let is_numeric = name == "localhost" || address(&name).is_some();
    allowed.contains(&name) || (is_numeric && Some(&origin) == host)
}

/// The host without port and brackets, in a form for comparisons.
fn name(authority: &Authority) -> String {
    let host = authority.host();
    comparable(host.trim_start_matches('[').trim_end_matches(']'))
}

fn comparable(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// The IP address, without the wrapping of an IPv4 address in IPv6.
fn address(name: &str) -> Option<IpAddr> {
    Some(name.parse::<IpAddr>().ok()?.to_canonical())
}

/// Returns whether the type is JSON, with any parameters. An empty one counts as none.
fn is_json(content_type: &HeaderValue) -> bool {
    let text = content_type.to_str().unwrap_or("?");
    let media_type = text.split(';').next().unwrap_or_default().trim();
    media_type.is_empty() || media_type.eq_ignore_ascii_case("application/json")
}

fn header_text(value: &HeaderValue) -> String {
    shown(&String::from_utf8_lossy(value.as_bytes()))
}

/// The start of a client's text, without characters that change a terminal.
fn shown(text: &str) -> String {
    let is_visible = |c: &char| c.is_ascii_graphic() || *c == ' ';
    let visible = text.chars().filter(is_visible);
    visible.take(SHOWN).collect()
}

#[cfg(test)]
mod tests;
