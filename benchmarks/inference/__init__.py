"""What reads BERT quickest: ONNX Runtime, torch or numpy, in fp32 or int8."""
