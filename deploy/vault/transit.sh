#!/bin/sh
# --secrets-key-command for HashiCorp Vault (and OpenBao: VAULT=bao): wraps keys with a key of the transit engine, which
# never leaves Vault. Both directions go through standard input: nothing secret is an argument.
#   vault secrets enable transit && vault write -f transit/keys/tailwright
# It wants VAULT_ADDR, and VAULT_TOKEN or a token helper, with `update` on transit/encrypt/NAME and transit/decrypt/NAME.
set -eu
key=${VAULT_TRANSIT_KEY:-tailwright}
vault=${VAULT:-vault}
case ${1-} in
wrap)
    plaintext=$(tr -d '\n' | base64 -w0)
    printf %s "$plaintext" | "$vault" write -field=ciphertext "transit/encrypt/$key" plaintext=-
    ;;
unwrap)
    ciphertext=$(tr -d '\n')
    plaintext=$(printf %s "$ciphertext" | "$vault" write -field=plaintext "transit/decrypt/$key" ciphertext=-)
    printf %s "$plaintext" | base64 -d
    ;;
*)
    echo "usage: transit.sh wrap|unwrap" >&2
    exit 2
    ;;
esac
