//! Announces the proxy to the server (Spec P6).

use lro_wire::edit::Edits;
use lro_wire::protocol::{CLIENT_CAPABILITIES, CLIENT_INFO, EXTENSION, ProtocolGeneration};
use lro_wire::{Message, Object};
use serde_json::{Value, json};

/// Adds to a request that we stand between. Nothing is added to an object that is not there: a
/// client that does not introduce itself is not introduced by us.
pub(crate) fn announce(message: &Message<'_>, edits: &mut Edits<'_>) {
    let (Some(era), Some(params)) = (ProtocolGeneration::from_request(message), message.params()) else { return };
    let (info, capabilities, under) = if era == ProtocolGeneration::Sessions {
        (params.get("clientInfo"), params.get("capabilities"), "experimental")
    } else {
        let Some(meta) = params.at(&["_meta"]) else { return };
        (meta.get(CLIENT_INFO), meta.get(CLIENT_CAPABILITIES), "extensions")
    };
    let patches = [
        (info, json!({"proxy": true})),
        (capabilities, json!({under: {EXTENSION: {"proxy": true}}})),
    ];
    for (object, patch) in patches {
        if let (Some(object), Value::Object(patch)) = (object, &patch)
            && Object::read(object.get()).is_some()
        {
            edits.merge(object.get(), patch);
        }
    }
}
