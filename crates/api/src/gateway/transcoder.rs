//! Messages to JSON and back, by the descriptors of the API: nothing here knows any one message.
//! Out: names as the `.proto` files spell them, 64-bit numbers as strings, bytes in base64, enums by name, and
//! nothing that is zero. In: either spelling of a name, numbers and strings; unknown names are
//! ignored. What comes in costs memory in proportion to its bytes.

use base::Code;
use bytes::Bytes;
use prost::{Message, Name};
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions,
};
use proto::DecodeLimit;
use tonic::Status;

/// Objects in one request: a decoded one takes far more memory than the two bytes that open and close it.
/// Enough for every message that is not too large by its own measure.
const OBJECTS_MAX: usize = 65_536;

const READING: DeserializeOptions = DeserializeOptions::new().deny_unknown_fields(false);
const WRITING: SerializeOptions = SerializeOptions::new()
    .stringify_64_bit_integers(true)
    .use_enum_numbers(false)
    .use_proto_field_name(true)
    .skip_default_fields(true);

pub struct Transcoder {
    pool: DescriptorPool,
    message_bytes_max: usize,
}

impl Transcoder {
    pub fn new(pool: DescriptorPool, message_bytes_max: usize) -> Transcoder {
        Transcoder { pool, message_bytes_max }
    }

    /// The most JSON that may be worth reading: base64 makes four bytes of three, and names take space.
    pub fn json_bytes_max(&self) -> usize {
        self.message_bytes_max * 2
    }

    /// Nothing at all is an empty message.
    pub fn read<M: Message + Name + Default + DecodeLimit>(&self, json: &[u8]) -> Result<M, Status> {
        if json.trim_ascii().is_empty() {
            return Ok(M::default());
        }
        if json.iter().filter(|byte| **byte == b'{').count() > OBJECTS_MAX {
            return Err(Status::invalid_argument(Code::TooManyOps.message()));
        }
        let mut reader = serde_json::Deserializer::from_slice(json);
        let message = DynamicMessage::deserialize_with_options(self.descriptor::<M>(), &mut reader, &READING)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let bytes = Bytes::from(message.encode_to_vec());
        drop(message);
        if bytes.len() > self.message_bytes_max {
            let (found, limit) = (bytes.len(), self.message_bytes_max);
            let words = format!("grpc: received message larger than max ({found} vs. {limit})");
            return Err(Status::resource_exhausted(words));
        }
        M::check(&bytes)?;
        M::decode(bytes).map_err(|error| Status::invalid_argument(error.to_string()))
    }

    pub fn write<M: Message + Name>(&self, message: &M) -> Vec<u8> {
        self.write_encoded::<M>(message.encode_to_vec().into())
    }

    /// The same of a message that is encoded already.
    pub fn write_encoded<M: Name>(&self, bytes: Bytes) -> Vec<u8> {
        let message = DynamicMessage::decode(self.descriptor::<M>(), bytes).expect("a message reads back");
        let mut json = Vec::new();
        message
            .serialize_with_options(&mut serde_json::Serializer::new(&mut json), &WRITING)
            .expect("a message can be written as JSON");
        json
    }

    fn descriptor<M: Name>(&self) -> MessageDescriptor {
        let name = M::full_name();
        self.pool.get_message_by_name(&name).expect("every message of the API is described")
    }
}

#[cfg(test)]
mod tests;
