"""Published deliveries of providers that name their certificate, and those certificates.

SNS: aws-sdk-ruby, gems/aws-sdk-sns/spec/message_verifier_spec.rb. PayPal: PayPal-Java-SDK,
ValidateCert.java, with the certificate as paypal-rest-sdk for node recorded it.
"""

from __future__ import annotations

PAYPAL_CERTIFICATE_URL = (
    "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-a5cafa77"
)
PAYPAL_WEBHOOK_ID = "3RN13029J36659323"
PAYPAL_TIME = 1431454454.0  # 2015-05-12T18:14:14Z
PAYPAL_HEADERS = {
    "PAYPAL-AUTH-ALGO": "SHA256withRSA",
    "PAYPAL-CERT-URL": PAYPAL_CERTIFICATE_URL,
    "PAYPAL-TRANSMISSION-ID": "b2384410-f8d2-11e4-8bf3-77339302725b",
    "PAYPAL-TRANSMISSION-TIME": "2015-05-12T18:14:14Z",
    "PAYPAL-TRANSMISSION-SIG": (
        "vSOIQFIZQHv8G2vpbOpD/4fSC4/MYhdHyv+AmgJyeJQq6q5avWyHIe/zL6qO5hle192HSqKbYveLoFXG"
        "Jun2od2zXN3Q45VBXwdX3woXYGaNq532flAtiYin+tQ/0pNwRDsVIufCxa3a8HskaXy+YEfXNnwCSL28"
        "7esD3HgOHmuAs0mYKQdbR4e8Evk8XOOQaZzGeV7GNXXz19gzzvyHbsbHmDz5VoRl9so5OoHqvnc5Rtgj"
        "ZfG8KA9lXh2MTPSbtdTLQb9ikKYnOGM+FasFMxk5stJisgmxaefpO9Q1qm3rCjaJ29aAOyDNr3Q7WkeN"
        "3w4bSXtFMwyRBOF28pJg9g=="
    ),
}
PAYPAL_BODY = (
    b'{"id":"WH-2W7266712B616591M-36507203HX6402335","create_time":"2015-05-12T18:14:14Z","'
    b'resource_type":"sale","event_type":"PAYMENT.SALE.COMPLETED","summary":"Payment comple'
    b'ted for $ 20.0 USD","resource":{"id":"7DW85331GX749735N","create_time":"2015-05-12T18'
    b':13:18Z","update_time":"2015-05-12T18:13:36Z","amount":{"total":"20.00","currency":"U'
    b'SD"},"payment_mode":"INSTANT_TRANSFER","state":"completed","protection_eligibility":"'
    b'ELIGIBLE","protection_eligibility_type":"ITEM_NOT_RECEIVED_ELIGIBLE,UNAUTHORIZED_PAYM'
    b'ENT_ELIGIBLE","parent_payment":"PAY-1A142943SV880364LKVJEFPQ","transaction_fee":{"val'
    b'ue":"0.88","currency":"USD"},"links":[{"href":"https://api.sandbox.paypal.com/v1/paym'
    b'ents/sale/7DW85331GX749735N","rel":"self","method":"GET"},{"href":"https://api.sandbo'
    b'x.paypal.com/v1/payments/sale/7DW85331GX749735N/refund","rel":"refund","method":"POST'
    b'"},{"href":"https://api.sandbox.paypal.com/v1/payments/payment/PAY-1A142943SV880364LK'
    b'VJEFPQ","rel":"parent_payment","method":"GET"}]},"links":[{"href":"https://api.sandbo'
    b'x.paypal.com/v1/notifications/webhooks-events/WH-2W7266712B616591M-36507203HX6402335"'
    b',"rel":"self","method":"GET"},{"href":"https://api.sandbox.paypal.com/v1/notification'
    b's/webhooks-events/WH-2W7266712B616591M-36507203HX6402335/resend","rel":"resend","meth'
    b'od":"POST"}]}'
)
PAYPAL_CERTIFICATE = b"""\
-----BEGIN CERTIFICATE-----
MIIHqDCCBpCgAwIBAgIQCSVMkxB1Kw9SPZtpAr3lTDANBgkqhkiG9w0BAQsFADB1
MQswCQYDVQQGEwJVUzEVMBMGA1UEChMMRGlnaUNlcnQgSW5jMRkwFwYDVQQLExB3
d3cuZGlnaWNlcnQuY29tMTQwMgYDVQQDEytEaWdpQ2VydCBTSEEyIEV4dGVuZGVk
IFZhbGlkYXRpb24gU2VydmVyIENBMB4XDTE1MDMxODAwMDAwMFoXDTE3MDMyMjEy
MDAwMFowggElMR0wGwYDVQQPDBRQcml2YXRlIE9yZ2FuaXphdGlvbjETMBEGCysG
AQQBgjc8AgEDEwJVUzEZMBcGCysGAQQBgjc8AgECEwhEZWxhd2FyZTEQMA4GA1UE
BRMHMzAxNDI2NzEWMBQGA1UECRMNMjIxMSBOIDFzdCBTdDEOMAwGA1UEERMFOTUx
MzExCzAJBgNVBAYTAlVTMRMwEQYDVQQIEwpDYWxpZm9ybmlhMREwDwYDVQQHEwhT
YW4gSm9zZTEVMBMGA1UEChMMUGF5UGFsLCBJbmMuMRgwFgYDVQQLEw9QYXJ0bmVy
IFN1cHBvcnQxNDAyBgNVBAMTK21lc3NhZ2V2ZXJpZmljYXRpb25jZXJ0cy5zYW5k
Ym94LnBheXBhbC5jb20wggEiMA0GCSqGSIb3DQEBAQUAA4IBDwAwggEKAoIBAQDI
XgwJj1E+vPOLNA7e3nFsRpQq7G1CFcoCNeRgFIGRfd4itt2jBRPfHXf1eeXODQ6V
wTMP6rVYrI3HBQu5SZRZKO3gALPiBWTcz5FhVovYDz/d/DtasA5L7l1xmRM+GGPE
e/D3ETPeyym6GTAuIzR1ju1BuSQlVnIrcILDHrFZo0RyqFH1eNL3oYfgz+ZCv+WH
65rhS60VowiLAb2lsARckJ2P8wKIps3YUxAqVG5SJ9H49ueBDI01wEzE/+59J8s9
GThmbMTqP6x4MneAcGN1TPimGd9wZlbwwrCYDtCoqFDcxMVgvD83uPrIinFwTIOX
w63QSv8/+ANuawBcNJDrAgMBAAGjggOAMIIDfDAfBgNVHSMEGDAWgBQ901Cl1qCt
7vNKYApl0yHU+PjWDzAdBgNVHQ4EFgQUt5yLggZOjjfzULzZCgX2KZO3R/gwNgYD
VR0RBC8wLYIrbWVzc2FnZXZlcmlmaWNhdGlvbmNlcnRzLnNhbmRib3gucGF5cGFs
LmNvbTAOBgNVHQ8BAf8EBAMCBaAwHQYDVR0lBBYwFAYIKwYBBQUHAwEGCCsGAQUF
BwMCMHUGA1UdHwRuMGwwNKAyoDCGLmh0dHA6Ly9jcmwzLmRpZ2ljZXJ0LmNvbS9z
aGEyLWV2LXNlcnZlci1nMS5jcmwwNKAyoDCGLmh0dHA6Ly9jcmw0LmRpZ2ljZXJ0
LmNvbS9zaGEyLWV2LXNlcnZlci1nMS5jcmwwQgYDVR0gBDswOTA3BglghkgBhv1s
AgEwKjAoBggrBgEFBQcCARYcaHR0cHM6Ly93d3cuZGlnaWNlcnQuY29tL0NQUzCB
iAYIKwYBBQUHAQEEfDB6MCQGCCsGAQUFBzABhhhodHRwOi8vb2NzcC5kaWdpY2Vy
dC5jb20wUgYIKwYBBQUHMAKGRmh0dHA6Ly9jYWNlcnRzLmRpZ2ljZXJ0LmNvbS9E
aWdpQ2VydFNIQTJFeHRlbmRlZFZhbGlkYXRpb25TZXJ2ZXJDQS5jcnQwDAYDVR0T
AQH/BAIwADCCAX0GCisGAQQB1nkCBAIEggFtBIIBaQFnAHUApLkJkLQYWBSHuxOi
zGdwCjw1mAT5G9+443fNDsgN3BAAAAFMLovtNgAABAMARjBEAiBTR7r3p76qUJzF
23lsbD/cLsA0KlxoJRSIvIK0OIYWiQIgVQWja8tWBlpcoFP30Iym7IuczitSazpH
fhKAVroTgXgAdgBo9pj4H2SCvjqM7rkoHUz8cVFdZ5PURNEKZ6y7T0/7xAAAAUwu
i+z4AAAEAwBHMEUCIEP3VYyLQB7lOgFo4WstyOurmRe3xa0OVaeFL/bDohHOAiEA
+xQrRVAfaeT4qBdBJzLyVLU4V9bh/qBMXJdjvYujhAcAdgBWFAaaL9fC7NP14b1E
sj7HRna5vJkRXMDvlJhV1onQ3QAAAUwui+6EAAAEAwBHMEUCIQC/YUc5X6xyb3ho
o4VMSJqSoNg9KKkvLh9nUQCdwHi3/QIgNwcBc9ZZCR/aWXQ7hKH6d39kpkDX2Z43
XPy/Kl5sKI4wDQYJKoZIhvcNAQELBQADggEBAHixEZNpb0M1MsvsfNI6lLKxrs9s
JkcBcmxrFyhTC8KP+Qp+Z1fnMRQwpTLIMr1+uAMqCPAnIShGHeFNJpUFSMyW4o0l
+pZGz/L/YJBs7XP3ChSGC17ZKeGSQFfMqMQXfY/L6+n/1HkAwqmewqUMEuUmWN3F
kXJqVngIYGZtxXRyiv2azLOhrNP8BgNZK6d2gVxntQfGr4hnd8Juq8SJy/S4xpPY
YPD8vW7/wSOdAe1/kU38QwDVBQ5PJePS2WFwz8YA/eKcyg9lfsianfw35SjehJbn
wGwzUbjtibyJnv3eAeYDGxaI6vbuoE99pSmYGIwSBLJwZamJHjci6HL6wLg=
-----END CERTIFICATE-----
"""

SNS_CERTIFICATE_URL = (
    "https://sns.us-east-2.amazonaws.com/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda"
    ".pem"
)
SNS_TIME = 1659043438.0  # 2022-07-28T21:23:58Z
SNS_TOPICS = (
    "arn:aws:sns:us-east-2:295079676684:publish-and-verify-892f85fe-4836-424d-8188-ab85bef0f362",
    "arn:aws:sns:us-east-2:295079676684:publish-and-verify-62674b1d-4295-426b-88e7-5fb75652a04e",
)
SNS_MESSAGES = (
    {
        "Type": "Notification",
        "MessageId": "792cda85-518f-5dd3-9163-81d851212f3a",
        "TopicArn": SNS_TOPICS[0],
        "Message": "Hello world",
        "Timestamp": "2022-07-28T21:23:58.317Z",
        "SignatureVersion": "1",
        "Signature": (
            "ghtf+deOBAzHJJZ6s6CdRLfTQAlcGzq9naoFM1wi0CJiq//uVRuZnamrkWNF0fhouMFvuLVRwcz8PZLUMSfnmd5V"
            "pdTKpTyiKmy1qJAZXma0w+yi7G+I33hD1Jyk1Nbym2n0kqp3fVu2aoooiN2ZeLAT2bH0/BtjLSfN1yAOKNoprco4"
            "qV9gGUZinXJdj9a1YdNhDR2jKi33ldlsVtEXAtiaDklGEk7DgRKX38GerBPiLg3FdtgY6KC7cdeGpU/dGK+4hjc8"
            "3Ive1HoFkAwqhpgInM2sMytBosoiXfCmOKmU4xeGD0gHDNZTlJUJQDlzw8Eag0H9f/5zXF9d3uy0YQ=="
        ),
        "SigningCertURL": SNS_CERTIFICATE_URL,
        "UnsubscribeURL": "https://sns.us-east-2.amazonaws.com/?Action=Unsubscribe",
    },
    {
        "Type": "Notification",
        "MessageId": "17dea24b-55c2-540b-8362-f916557af765",
        "TopicArn": SNS_TOPICS[1],
        "Message": "Hello world",
        "Timestamp": "2022-07-28T21:24:08.324Z",
        "SignatureVersion": "2",
        "Signature": (
            "CXVqp9PfZAL+4JHS3Zxo1PFbQsvnOjvmYhtIf17TWpwc+iIVas8kZ8GopuzVzVMdatE7rCl/O4P91Zp05Dwz8lk8"
            "dLhfp8gSu3Njlzxlyrmzo9x3va3Jb7zFnedgS2GKnZWHGBdwTXho+TosNUE+3e10OMSlwN5XGDwX7+R3WL+rn+AX"
            "mFAqp3alg27sYa55h1dLE9cGszGPjScPdtF3BmZsUDMx9wSdNKsCk+vSvE8yBjnCmUl7laSFj3LzPVrlSwgNYCF3"
            "kYnNAkah7NplK4SFhJYLwS0HCVCQJKa8rVbQLf9cBTu60U402mrgy0bN8xWoyimzbYbrOMJjalqkUg=="
        ),
        "SigningCertURL": SNS_CERTIFICATE_URL,
        "UnsubscribeURL": "https://sns.us-east-2.amazonaws.com/?Action=Unsubscribe",
    },
)
SNS_CERTIFICATE = b"""\
-----BEGIN CERTIFICATE-----
MIIF1zCCBL+gAwIBAgIQB9pYWG3Mi7xej22g9pobJTANBgkqhkiG9w0BAQsFADBG
MQswCQYDVQQGEwJVUzEPMA0GA1UEChMGQW1hem9uMRUwEwYDVQQLEwxTZXJ2ZXIg
Q0EgMUIxDzANBgNVBAMTBkFtYXpvbjAeFw0yMTA5MDcwMDAwMDBaFw0yMjA4MTcy
MzU5NTlaMBwxGjAYBgNVBAMTEXNucy5hbWF6b25hd3MuY29tMIIBIjANBgkqhkiG
9w0BAQEFAAOCAQ8AMIIBCgKCAQEAutFqueT3XgP13udzxE6UpbdjOtVO5DwoMpSM
iDNMnGzF1TYH5/R2LPUOBeTB0SkKnR4kpNcUZhicpGD4aKciz/GEZ6wu65xncfT9
H/KBOQwoXYTuClHwp6fYpGzcGFaFoEYMnijL/o4qmTSd+ukglQUgKpsDw4ofw6rU
m2CttJo+GQSNQ9NfGR1h/0J+zsApkeSYrXRx5wNlu87z8os1C/6PBrUHwt3xXeaf
Xzfwut8aRRYsS8BySOA9DAgLfNHlfdQCjKPXKrG/ussgReyWD6n/HH+j7Uha3xos
TzQqJifcxlTq6MxWdPR6fDaJNvqw6DOE7UjUNxHguXHlVfxhlQIDAQABo4IC6TCC
AuUwHwYDVR0jBBgwFoAUWaRmBlKge5WSPKOUByeWdFv5PdAwHQYDVR0OBBYEFAqz
C+vyouneE7mWWLbi9i0UsWUbMBwGA1UdEQQVMBOCEXNucy5hbWF6b25hd3MuY29t
MA4GA1UdDwEB/wQEAwIFoDAdBgNVHSUEFjAUBggrBgEFBQcDAQYIKwYBBQUHAwIw
OwYDVR0fBDQwMjAwoC6gLIYqaHR0cDovL2NybC5zY2ExYi5hbWF6b250cnVzdC5j
b20vc2NhMWIuY3JsMBMGA1UdIAQMMAowCAYGZ4EMAQIBMHUGCCsGAQUFBwEBBGkw
ZzAtBggrBgEFBQcwAYYhaHR0cDovL29jc3Auc2NhMWIuYW1hem9udHJ1c3QuY29t
MDYGCCsGAQUFBzAChipodHRwOi8vY3J0LnNjYTFiLmFtYXpvbnRydXN0LmNvbS9z
Y2ExYi5jcnQwDAYDVR0TAQH/BAIwADCCAX0GCisGAQQB1nkCBAIEggFtBIIBaQFn
AHYAKXm+8J45OSHwVnOfY6V35b5XfZxgCvj5TV0mXCVdx4QAAAF7vfDVkQAABAMA
RzBFAiEA2XfHuy36aqRFiaL8c3md2mH451go8707+fRE0pEdSRACIE/g5FXTUXUZ
PFcmOhm9TZ+uMY1i4CIQ/CKVWln6C3t+AHYAUaOw9f0BeZxWbbg3eI8MpHrMGyfL
956IQpoN/tSLBeUAAAF7vfDVjAAABAMARzBFAiBF1MhhFP0+FQt3daDFfMYoWwnr
muTInrjNpwfzlvQBugIhAPYadFzr+LaxSJoiZEbEHBvTts7bT0M3eCQONA2O7w6n
AHUAQcjKsd8iRkoQxqE6CUKHXk4xixsD6+tLx2jwkGKWBvYAAAF7vfDVdAAABAMA
RjBEAiAtPapmFAuA71ih4NoSd5hJelzAltNQpxDMcDfDyHyU8gIgWxmaa6+2KbBu
9xdv379zvnJACFR7jc+4asl08Dn4aagwDQYJKoZIhvcNAQELBQADggEBAA54QX0u
oFWXfMmv02CGZv4NWo5TapyeeixQ2kKpZHRdVZjxZrw+hoF6HD7P3kGjH8ztyJll
tDxB0qgMltbPhQdScwhA6iTgoaBYqEUC/VHKd4PmmPT6yIsM36NBZVmkGlzl5uNo
/dBgBaG0SsVJnhr5zro3c2quC7n6fVGEZhf/UgQwRnnvThnvbNKguglDMq4uEqv8
njKyleht+glkcmXO0m9qLKt6BOS0amy6U2GlAwRn0Wx02ndJtnRCSC6kPuRWK/SQ
FEjB7gCK4hdKaAOuWdZpI55vF6ifOeM8toC3g7ofO8qLTnJupAG+ZitY5J3cvHWr
HqOUdKigPDHYLRo=
-----END CERTIFICATE-----
"""
