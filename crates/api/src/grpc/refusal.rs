//! Refusals on the wire. Everything comes from the one table in `base::code`; no other file of this crate
//! chooses a gRPC code or words a message for a refusal of the store.

use base::Code;
use tonic::Status;

pub fn render(code: Code) -> Status {
    Status::new(tonic::Code::from_i32(code.grpc() as i32), code.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_keeps_its_number_and_its_words() {
        for code in Code::ALL {
            let status = render(*code);
            assert_eq!(status.code() as i32, code.grpc() as i32, "{code:?}");
            let is_known =
                status.code() != tonic::Code::Unknown || code.grpc() == base::code::GrpcCode::Unknown;
            assert!(is_known, "{code:?}");
            assert_eq!(status.message(), code.message());
        }
    }
}
