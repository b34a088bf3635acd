//! Decides whether a response may be compressed: the client accepts gzip (RFC 9110, 12.5.3) and gains by it.
//!
//! A client of this machine would only unpack what costs almost nothing to send, so it gets a compressed response
//! only if it refuses any other.

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Returns whether long responses to this request are compressed with gzip.
pub(super) fn is_compressed(headers: &HeaderMap, is_local: bool) -> bool {
    let gzip = weight(headers, &["gzip", "x-gzip"]);
    let identity = weight(headers, &["identity"]).or_else(|| {
        // `*` is about every encoding that has no entry of its own.
        weight(headers, &["*"]).filter(|weight| *weight == 0.0)
    });
    match (gzip, identity) {
        (None, _) => false,
        (Some(gzip), _) if gzip <= 0.0 => false,
        (Some(_), Some(0.0)) => true,
        (Some(gzip), Some(identity)) => !is_local && gzip >= identity,
        (Some(_), None) => !is_local,
    }
}

/// The largest weight that the client gives to one of these encodings; `None` if it names none of them.
fn weight(headers: &HeaderMap, names: &[&str]) -> Option<f32> {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let entries = values.filter_map(|value| value.to_str().ok());
    let entries = entries.flat_map(|value| value.split(','));
    let weights = entries.filter_map(|entry| {
        let (name, parameters) = entry.split_once(';').unwrap_or((entry, ""));
        let name = name.trim();
        if !names.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            return None;
        }
        match parameters.trim().split_once('=') {
            None => Some(1.0),
            Some((_, weight)) => weight.trim().parse::<f32>().ok().filter(|weight| *weight >= 0.0),
        }
    });
    weights.reduce(f32::max)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn clients_of_this_machine_get_compressed_responses_only_if_they_refuse_others() {
        for (accepted, from_elsewhere, from_here) in [
            (&[] as &[&str], false, false),
            (&["gzip"], true, false),
            (&["GZIP"], true, false),
            (&["x-gzip"], true, false),
            (&["deflate, gzip;q=0.5, br"], true, false),
            (&["deflate", "gzip"], true, false),
            (&["br"], false, false),
            (&["*"], false, false),
            (&["gzip;q=0"], false, false),
            (&["gzip;q=0.000, identity;q=0"], false, false),
            (&["gzip;q=0.2, identity;q=0.5"], false, false),
            (&["gzip, identity"], true, false),
            (&["gzip;q=wrong"], false, false),
            (&["gzip, identity;q=0"], true, true),
            (&["gzip;q=0.1,identity; q=0.0"], true, true),
            (&["gzip, *;q=0"], true, true),
            (&["gzip, identity;q=1, *;q=0"], true, false),
        ] {
            let mut headers = HeaderMap::new();
            for value in accepted {
                headers.append(ACCEPT_ENCODING, HeaderValue::from_static(value));
            }
            let compressed = [false, true].map(|is_local| is_compressed(&headers, is_local));
            assert_eq!(compressed, [from_elsewhere, from_here], "{accepted:?}");
        }
    }
}
