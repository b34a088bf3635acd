//! Desired specs to API calls.
