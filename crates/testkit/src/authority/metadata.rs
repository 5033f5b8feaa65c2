//! Metadata: of the protected resource (RFC 9728) and of the authority (RFC 8414).

use serde_json::{Value, json};

use super::{Fault, Ledger};

pub(super) fn of_resource(ledger: &Ledger) -> Value {
    let resource = ledger.fault(|fault| match fault {
        Fault::Resource(other) => Some(other.clone()),
        _ => None,
    });
    let servers = ledger.fault(|fault| match fault {
        Fault::AuthorizationServers(others) => Some(others.clone()),
        _ => None,
    });
    json!({
        "resource": resource.unwrap_or_else(|| ledger.resource()),
        "authorization_servers": servers.unwrap_or_else(|| vec![ledger.base.clone()]),
        "scopes_supported": ["echo"],
        "bearer_methods_supported": ["header"],
    })
}

pub(super) fn of_authority(ledger: &Ledger) -> Value {
    let base = &ledger.base;
    let at = |path: &str| format!("{base}{path}");
    let mut metadata = json!({
        "issuer": base,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "registration_endpoint": at("/register"),
        "revocation_endpoint": at("/revoke"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
        "authorization_response_iss_parameter_supported": true,
    });
    if ledger.signer.is_some() {
        metadata["jwks_uri"] = json!(at("/keys"));
    }
    for fault in &ledger.faults {
        match fault {
            Fault::IssuerInMetadata(other) => metadata["issuer"] = json!(other),
            Fault::PkceMethods(Some(methods)) => {
                metadata["code_challenge_methods_supported"] = json!(methods);
            }
            Fault::PkceMethods(None) => {
                if let Some(fields) = metadata.as_object_mut() {
                    fields.remove("code_challenge_methods_supported");
                }
            }
            Fault::ClientDocuments => {
                metadata["client_id_metadata_document_supported"] = json!(true);
            }
            Fault::Metadata(name, value) => metadata[*name] = json!(value),
            Fault::HugeMetadata(size) => metadata["padding"] = json!("x".repeat(*size)),
            _ => {}
        }
    }
    metadata
}
