#!/bin/sh
# Makes the certificates of the tests again, all of them: `sh make.sh`, beside this file. They are kept because a library
# that makes them would weigh more than they do; none of the keys opens anything.
set -eu
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
FROM=20200101000000Z
UNTIL=21200101000000Z

key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1"; }

# authority NAME
authority() {
    mkdir -p "$scratch/$1"
    : > "$scratch/$1/index"
    echo 1000 > "$scratch/$1/serial"
    echo 01 > "$scratch/$1/crlnumber"
    key "$scratch/$1/key.pem"
    cat > "$scratch/$1/conf" <<CONF
[ca]
default_ca = one
[one]
database = $scratch/$1/index
serial = $scratch/$1/serial
crlnumber = $scratch/$1/crlnumber
new_certs_dir = $scratch/$1
certificate = $1.pem
private_key = $scratch/$1/key.pem
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = optional
organizationName = optional
[req]
distinguished_name = none
prompt = no
[none]
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
CONF
    openssl req -new -config "$scratch/$1/conf" -key "$scratch/$1/key.pem" -subj "/O=Althing tests/CN=$1" -out "$scratch/$1/csr"
    openssl ca -batch -notext -config "$scratch/$1/conf" -selfsign -extensions authority -startdate $FROM -enddate $UNTIL \
        -in "$scratch/$1/csr" -out "$1.pem" 2> /dev/null
}

# issue AUTHORITY NAME SUBJECT USAGE ADDRESSES [UNTIL]
issue() {
    key "$2.key"
    {
        echo "extendedKeyUsage = $4"
        echo "keyUsage = digitalSignature"
        [ -z "$5" ] || echo "subjectAltName = $5"
    } > "$scratch/extensions"
    openssl req -new -config "$scratch/$1/conf" -key "$2.key" -subj "$3" -out "$scratch/csr"
    openssl ca -batch -notext -config "$scratch/$1/conf" -extfile "$scratch/extensions" -startdate $FROM -enddate "${6:-$UNTIL}" \
        -in "$scratch/csr" -out "$2.pem" 2> /dev/null
}

HERE=DNS:localhost,IP:127.0.0.1,IP:0:0:0:0:0:0:0:1
authority ca
authority other-ca
issue ca server /CN=server serverAuth $HERE
issue ca renewed /CN=renewed serverAuth $HERE
issue ca expired /CN=expired serverAuth,clientAuth $HERE 20210101000000Z
issue ca peer /CN=peer serverAuth,clientAuth $HERE
issue ca elsewhere /CN=elsewhere serverAuth,clientAuth IP:192.0.2.1
issue ca root /CN=root clientAuth ""
issue ca alice /CN=alice clientAuth ""
issue ca nameless "/O=nobody" clientAuth ""
issue ca revoked /CN=alice clientAuth ""
issue other-ca stranger /CN=root serverAuth,clientAuth $HERE
openssl ca -config "$scratch/ca/conf" -revoke revoked.pem 2> /dev/null
openssl ca -config "$scratch/ca/conf" -gencrl -crldays 36500 -out crl.pem 2> /dev/null

# A certificate that is its own authority, and that a client shows.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout own-authority.key -out own-authority.pem -days 36500 \
    -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:TRUE 2> /dev/null
