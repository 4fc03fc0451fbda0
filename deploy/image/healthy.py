"""Health check of the control plane's container: status 0 when its own /healthz answers 200.

It asks as the service is set by variables (TAILWRIGHT_PORT, TAILWRIGHT_TLS_CERT, TAILWRIGHT_ALLOWED_HOSTS). Whose
certificate it is does not matter here: it is this container's own port.
"""

import http.client
import os
import ssl
import sys

TIMEOUT_S = 3.0


def main() -> int:
    port = int(os.environ.get("TAILWRIGHT_PORT") or 7300)
    name = (os.environ.get("TAILWRIGHT_ALLOWED_HOSTS") or "localhost").split(",")[0].strip()
    connection: http.client.HTTPConnection
    if os.environ.get("TAILWRIGHT_TLS_CERT"):
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_S, context=context)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/healthz", headers={"Host": name})
        status = connection.getresponse().status
    except OSError as error:
        print(f"127.0.0.1:{port}: {error}", file=sys.stderr)
        return 1
    finally:
        connection.close()
    if status != 200:
        print(f"/healthz answered {status}", file=sys.stderr)
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
